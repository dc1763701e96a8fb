-- The views, an interface: docs/formats.md defines their columns. This file is applied after the numbered migrations
-- whenever the version of a database changes; a new column is a line here and a migration that raises the version.

DROP VIEW IF EXISTS v_scores_by_length;
CREATE VIEW v_scores_by_length AS
SELECT
  variants.job_id,
  variants.name AS variant,
  cells.task,
  task_metrics.metric,
  cells.context_length,
  cells.planned_count,
  count(scores.value) AS answered_count,
  count(generations.error_code) AS failed_count,
  CASE WHEN task_metrics.worst_value IS NOT NULL OR count(generations.error_code) = 0 THEN
    avg(CASE WHEN generations.error_code IS NULL THEN scores.value ELSE task_metrics.worst_value END) END AS mean,
  avg(scores.value) AS mean_answered
FROM cells
JOIN variants ON variants.variant_id = cells.variant_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN generations ON generations.cell_id = cells.cell_id
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric
GROUP BY cells.cell_id, task_metrics.metric;

DROP VIEW IF EXISTS v_samples;
CREATE VIEW v_samples AS
SELECT
  variants.job_id,
  variants.name AS variant,
  samples.task,
  samples.context_length,
  samples.sample_index,
  samples.question_id,
  samples.cluster,
  samples.prompt_token_count,
  samples.gold_json AS gold,
  generations.answer,
  task_metrics.metric,
  scores.value,
  generations.error_code,
  task_metrics.metric_index = 0 AS is_primary,
  samples.depth,
  generations.finish_reason,
  generations.new_token_count,
  generations.cached_token_count,
  generations.queue_us,
  generations.prefill_us,
  generations.decode_us,
  CASE WHEN models.focal_temperature_json LIKE '[%' THEN models.focal_temperature_json
    ELSE CAST(models.focal_temperature_json AS REAL) END AS trained_temperature,
  CASE WHEN variants.focal_temperature_json LIKE '[%' THEN variants.focal_temperature_json
    ELSE CAST(variants.focal_temperature_json AS REAL) END AS run_temperature,
  generations.is_extrapolated,
  generations.pairs_visible_share,
  generations.largest_group_share,
  samples.truncation_json IS NOT NULL AS is_truncated,
  samples.token_ids_sha256,
  samples.prompt,
  generations.thinking_state,
  generations.thinking_token_count,
  generations.new_token_count - coalesce(generations.thinking_token_count, 0) AS answer_token_count,
  generations.is_thinking_forced,
  coalesce(samples.epoch, 0) AS epoch
FROM generations
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN models ON models.model_id = variants.model_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric;

DROP VIEW IF EXISTS v_pairs;
CREATE VIEW v_pairs AS
SELECT
  b_variant.job_id,
  b_sample.task,
  task_metrics.metric,
  b_sample.context_length,
  b_sample.question_id,
  b_sample.cluster,
  b_variant.name AS baseline_variant,
  c_variant.name AS candidate_variant,
  CASE WHEN b.error_code IS NULL THEN b_score.value ELSE task_metrics.worst_value END AS baseline_value,
  CASE WHEN c.error_code IS NULL THEN c_score.value ELSE task_metrics.worst_value END AS candidate_value,
  CASE WHEN c.error_code IS NULL THEN c_score.value ELSE task_metrics.worst_value END
    - CASE WHEN b.error_code IS NULL THEN b_score.value ELSE task_metrics.worst_value END AS difference,
  b.error_code AS baseline_error,
  c.error_code AS candidate_error,
  coalesce(b_sample.epoch, 0) AS epoch
FROM variants AS b_variant
JOIN variants AS c_variant ON c_variant.job_id = b_variant.job_id AND c_variant.variant_id <> b_variant.variant_id
JOIN models AS c_model ON c_model.model_id = c_variant.model_id
JOIN cells AS b_cell ON b_cell.variant_id = b_variant.variant_id
JOIN cells AS c_cell ON c_cell.variant_id = c_variant.variant_id AND c_cell.task = b_cell.task
  AND c_cell.context_length = b_cell.context_length
JOIN generations AS b ON b.cell_id = b_cell.cell_id
JOIN samples AS b_sample ON b_sample.sample_id = b.sample_id
JOIN samples AS c_sample ON c_sample.job_id = b_sample.job_id AND c_sample.task = b_sample.task
  AND c_sample.context_length = b_sample.context_length AND c_sample.sample_index = b_sample.sample_index
  AND c_sample.tokenizer_sha256 = c_model.tokenizer_sha256 AND c_sample.question_id = b_sample.question_id
JOIN generations AS c ON c.cell_id = c_cell.cell_id AND c.sample_id = c_sample.sample_id
JOIN task_metrics ON task_metrics.job_id = b_variant.job_id AND task_metrics.task = b_cell.task
LEFT JOIN scores AS b_score ON b_score.generation_id = b.generation_id AND b_score.metric = task_metrics.metric
LEFT JOIN scores AS c_score ON c_score.generation_id = c.generation_id AND c_score.metric = task_metrics.metric;

DROP VIEW IF EXISTS v_content;
CREATE VIEW v_content AS
SELECT
  jobs.data_seed,
  variants.name AS variant,
  samples.task,
  samples.context_length,
  samples.sample_index,
  task_metrics.metric,
  samples.question_id,
  samples.cluster,
  samples.token_ids_sha256,
  samples.gold_json AS gold,
  generations.finish_reason,
  generations.answer_raw,
  generations.answer,
  generations.log_likelihoods_json AS log_likelihoods,
  generations.new_token_count,
  generations.error_code,
  scores.value
FROM generations
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN jobs ON jobs.job_id = variants.job_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric;

DROP VIEW IF EXISTS v_attention;
CREATE VIEW v_attention AS
SELECT
  variants.job_id,
  variants.name AS variant,
  samples.task,
  samples.context_length,
  samples.sample_index,
  samples.question_id,
  attention_heads.layer,
  attention_heads.head,
  attention_heads.scale,
  attention_heads.entropy,
  attention_heads.largest_weight,
  attention_heads.first_mass,
  attention_heads.evidence_mass,
  attention_heads.distractor_mass,
  attention_heads.question_mass
FROM attention_heads
JOIN generations ON generations.generation_id = attention_heads.generation_id
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN samples ON samples.sample_id = generations.sample_id;

DROP VIEW IF EXISTS v_variants;
CREATE VIEW v_variants AS
SELECT
  variants.job_id,
  variants.name AS variant,
  models.name AS model,
  models.training_arm,
  models.training_seed,
  models.training_tokens,
  models.trained_context_length,
  models.parameter_count,
  CASE WHEN models.focal_temperature_json LIKE '[%' THEN models.focal_temperature_json
    ELSE CAST(models.focal_temperature_json AS REAL) END AS trained_temperature,
  CASE WHEN variants.focal_temperature_json LIKE '[%' THEN variants.focal_temperature_json
    ELSE CAST(variants.focal_temperature_json AS REAL) END AS run_temperature,
  models.dtype,
  models.weights_sha256,
  models.function_sha256,
  models.tokenizer_sha256
FROM variants
JOIN models ON models.model_id = variants.model_id;
