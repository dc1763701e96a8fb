-- Counts of a job's cells: sqlite3 -csv -header DATABASE < recipes/llama/counts.sql > recipes/llama/results/NAME_counts.csv
-- right: sum of the primary metric, which is 0 or 1 in the native tasks; empty: answers of nothing (white space at the ends is not stored).
-- Where answers have thinking blocks or filters, take the counts of `varifocal report --format=csv` instead.
-- seed: of a job of several data seeds, whose samples are blocks of equal size.
WITH answers AS (
  SELECT data_seed, variant, task, context_length, value, answer, sample_index * coalesce(spec_json ->> '$.suite.seeds', 1) AS place,
         count(*) OVER (PARTITION BY job_id, variant, task, context_length) AS whole
  FROM v_samples JOIN jobs USING (job_id) WHERE is_primary)
SELECT data_seed + place / whole AS seed, variant, task, context_length AS length, count(*) AS samples, CAST(sum(value) AS INTEGER) AS right,
       sum(answer = '') AS empty
FROM answers GROUP BY 1, 4, 3, 2 ORDER BY 1, 4, 3, 2;
