-- Schema version 5: statistics of learned groups.

-- The share of prompt token pairs j <= i that attend to each other (mean over layers with groups), and the largest
-- share of prompt tokens in one group (of any layer). NULL without learned groups; the second also where all groups
-- always attend to each other and are not computed.
ALTER TABLE generations ADD COLUMN pairs_visible_share REAL;
ALTER TABLE generations ADD COLUMN largest_group_share REAL;

DROP VIEW v_samples;
CREATE VIEW v_samples (
  job_id, variant, task, context_length, sample_index, question_id, cluster, prompt_token_count, gold, answer, metric,
  value, error_code, is_primary, depth, finish_reason, new_token_count, cached_token_count, queue_us, prefill_us,
  decode_us, trained_temperature, run_temperature, is_extrapolated, pairs_visible_share, largest_group_share
) AS
SELECT variants.job_id, variants.name, samples.task, samples.context_length, samples.sample_index, samples.question_id,
  samples.cluster, samples.prompt_token_count, samples.gold_json, generations.answer, task_metrics.metric, scores.value,
  generations.error_code, task_metrics.metric_index = 0, samples.depth, generations.finish_reason,
  generations.new_token_count, generations.cached_token_count, generations.queue_us, generations.prefill_us,
  generations.decode_us,
  CASE WHEN models.focal_temperature_json LIKE '[%' THEN models.focal_temperature_json
    ELSE CAST(models.focal_temperature_json AS REAL) END,
  CASE WHEN variants.focal_temperature_json LIKE '[%' THEN variants.focal_temperature_json
    ELSE CAST(variants.focal_temperature_json AS REAL) END,
  generations.is_extrapolated, generations.pairs_visible_share, generations.largest_group_share
FROM generations
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN models ON models.model_id = variants.model_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric;

UPDATE schema_version SET version = 5, compatible_version = 1;
