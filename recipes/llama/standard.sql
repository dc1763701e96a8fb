-- Answers of `standard` as rows: sqlite3 -csv DATABASE < recipes/llama/standard.sql
-- data seed, variant, task, length, sample, context, value of the primary metric, answer of white space alone
SELECT data_seed, variant, task, context_length, sample_index, cluster, value, trim(answer) = ''
FROM v_samples JOIN jobs USING (job_id) WHERE is_primary ORDER BY 1, 4, 3, 2, 5;
