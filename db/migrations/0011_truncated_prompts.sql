-- Schema version 11: prompts that were truncated are a column of v_samples; v_scores_by_length has a mean for metrics
-- without a worst value (log-likelihoods) where no sample failed.
UPDATE schema_version SET version = 11, compatible_version = 1;
