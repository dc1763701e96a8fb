-- Schema version 9: how a checkpoint was trained, so that replicates and axes other than the context length can be found.

-- Counted from the tensors; NULL in rows of earlier versions, and without weights.
ALTER TABLE models ADD COLUMN parameter_count INTEGER;
-- From "training" of config.json; NULL where it does not state them. Runs of one arm differ in their seed.
ALTER TABLE models ADD COLUMN training_arm TEXT;
ALTER TABLE models ADD COLUMN training_seed INTEGER;
ALTER TABLE models ADD COLUMN training_tokens INTEGER;

CREATE VIEW v_variants (
  job_id, variant, model, training_arm, training_seed, training_tokens, trained_context_length, parameter_count,
  trained_temperature, run_temperature, dtype, weights_sha256
) AS
SELECT variants.job_id, variants.name, models.name, models.training_arm, models.training_seed, models.training_tokens,
  models.trained_context_length, models.parameter_count,
  CASE WHEN models.focal_temperature_json LIKE '[%' THEN models.focal_temperature_json
    ELSE CAST(models.focal_temperature_json AS REAL) END,
  CASE WHEN variants.focal_temperature_json LIKE '[%' THEN variants.focal_temperature_json
    ELSE CAST(variants.focal_temperature_json AS REAL) END,
  models.dtype, models.weights_sha256
FROM variants
JOIN models ON models.model_id = variants.model_id;

UPDATE schema_version SET version = 9, compatible_version = 1;
