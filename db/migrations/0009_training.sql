-- Schema version 9: how a checkpoint was trained, so that replicates and axes other than the context length can be found.

-- Counted from the tensors; NULL in rows of earlier versions, and without weights.
ALTER TABLE models ADD COLUMN parameter_count INTEGER;
-- From "training" of config.json; NULL where it does not state them. Runs of one arm differ in their seed.
ALTER TABLE models ADD COLUMN training_arm TEXT;
ALTER TABLE models ADD COLUMN training_seed INTEGER;
ALTER TABLE models ADD COLUMN training_tokens INTEGER;

UPDATE schema_version SET version = 9, compatible_version = 1;
