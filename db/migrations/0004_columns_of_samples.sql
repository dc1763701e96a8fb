-- Schema version 4: JSON values that readers need, as columns: views of an untrusted file may not call JSON functions.

-- Where the evidence begins (its first span), from 0, the start of the prompt, to 1; NULL without evidence.
ALTER TABLE samples ADD COLUMN depth REAL;
UPDATE samples SET depth = json_extract(evidence_json, '$[0].token_begin') * 1.0 / prompt_token_count
WHERE evidence_json IS NOT NULL AND prompt_token_count > 0;

-- The temperature of focal_attention that the checkpoint was trained with: a JSON number or list; NULL without one.
ALTER TABLE models ADD COLUMN focal_temperature_json TEXT;
UPDATE models SET focal_temperature_json = attention_json -> '$.focal_attention.temperature';

DROP VIEW v_samples;
CREATE VIEW v_samples (
  job_id, variant, task, context_length, sample_index, question_id, cluster, prompt_token_count, gold, answer, metric,
  value, error_code, is_primary, depth, finish_reason, new_token_count, cached_token_count, queue_us, prefill_us,
  decode_us, trained_temperature, run_temperature, is_extrapolated
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
  generations.is_extrapolated
FROM generations
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN models ON models.model_id = variants.model_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric;

UPDATE schema_version SET version = 4, compatible_version = 1;
