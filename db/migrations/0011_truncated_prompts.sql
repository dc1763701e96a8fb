-- Schema version 11: prompts that were truncated are a column of v_samples; v_scores_by_length has a mean for metrics
-- without a worst value (log-likelihoods) where no sample failed.
DROP VIEW v_samples;
CREATE VIEW v_samples (
  job_id, variant, task, context_length, sample_index, question_id, cluster, prompt_token_count, gold, answer, metric,
  value, error_code, is_primary, depth, finish_reason, new_token_count, cached_token_count, queue_us, prefill_us,
  decode_us, trained_temperature, run_temperature, is_extrapolated, pairs_visible_share, largest_group_share,
  is_truncated
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
  generations.is_extrapolated, generations.pairs_visible_share, generations.largest_group_share,
  samples.truncation_json IS NOT NULL
FROM generations
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN models ON models.model_id = variants.model_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric;

DROP VIEW v_scores_by_length;
CREATE VIEW v_scores_by_length (
  job_id, variant, task, metric, context_length, planned_count, answered_count, failed_count, mean, mean_answered
) AS
SELECT variants.job_id, variants.name, cells.task, task_metrics.metric, cells.context_length, cells.planned_count,
  count(scores.value), count(generations.error_code),
  CASE WHEN task_metrics.worst_value IS NOT NULL OR count(generations.error_code) = 0 THEN
    avg(CASE WHEN generations.error_code IS NULL THEN scores.value ELSE task_metrics.worst_value END) END,
  avg(scores.value)
FROM cells
JOIN variants ON variants.variant_id = cells.variant_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN generations ON generations.cell_id = cells.cell_id
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric
GROUP BY cells.cell_id, task_metrics.metric;

UPDATE schema_version SET version = 11, compatible_version = 1;
