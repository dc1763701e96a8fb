-- Answers as rows: sqlite3 -csv -header DATABASE < recipes/llama/rows.sql
-- value: of the primary metric; context: of the questions that share one; empty: 1 for an answer of nothing (white space at the ends is not
-- stored). Where answers have thinking blocks or filters, take the marks of `varifocal report` instead.
SELECT data_seed AS seed, variant, task, context_length AS length, sample_index AS sample, cluster AS context, value,
       answer = '' AS empty
FROM v_samples JOIN jobs USING (job_id) WHERE is_primary ORDER BY 1, 4, 3, 2, 5;
