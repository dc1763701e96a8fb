-- Schema version 12: the function of a model, so that two models with equal weights and other settings are told apart.

-- Canonical JSON of everything besides weights and tokenizer that the answers depend on, and its SHA-256. NULL in rows of
-- earlier versions: such a model is held equal to no other.
ALTER TABLE models ADD COLUMN function_json TEXT CHECK (function_json IS NULL OR json_valid(function_json));
ALTER TABLE models ADD COLUMN function_sha256 TEXT CHECK ((function_sha256 IS NULL) = (function_json IS NULL));

DROP VIEW v_variants;
CREATE VIEW v_variants (
  job_id, variant, model, training_arm, training_seed, training_tokens, trained_context_length, parameter_count,
  trained_temperature, run_temperature, dtype, weights_sha256, function_sha256, tokenizer_sha256
) AS
SELECT variants.job_id, variants.name, models.name, models.training_arm, models.training_seed, models.training_tokens,
  models.trained_context_length, models.parameter_count,
  CASE WHEN models.focal_temperature_json LIKE '[%' THEN models.focal_temperature_json
    ELSE CAST(models.focal_temperature_json AS REAL) END,
  CASE WHEN variants.focal_temperature_json LIKE '[%' THEN variants.focal_temperature_json
    ELSE CAST(variants.focal_temperature_json AS REAL) END,
  models.dtype, models.weights_sha256, models.function_sha256, models.tokenizer_sha256
FROM variants
JOIN models ON models.model_id = variants.model_id;

UPDATE schema_version SET version = 12, compatible_version = 1;
