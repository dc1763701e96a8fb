-- Schema version 12: the function of a model, so that two models with equal weights and other settings are told apart.

-- Canonical JSON of everything besides weights and tokenizer that the answers depend on, and its SHA-256. NULL in rows of
-- earlier versions: such a model is held equal to no other.
ALTER TABLE models ADD COLUMN function_json TEXT CHECK (function_json IS NULL OR json_valid(function_json));
ALTER TABLE models ADD COLUMN function_sha256 TEXT CHECK ((function_sha256 IS NULL) = (function_json IS NULL));

UPDATE schema_version SET version = 12, compatible_version = 1;
