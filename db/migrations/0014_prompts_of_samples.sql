-- Schema version 14: v_samples has the hash of the prompt's token ids, which scores are imported by, and the prompt where it is
-- kept.
UPDATE schema_version SET version = 14, compatible_version = 1;
