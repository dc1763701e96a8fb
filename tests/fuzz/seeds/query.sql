SELECT v.variant, s.name AS "first name", count(*), avg(value), 1.5e3, X'00FF', NULL, 'it''s' -- a comment
FROM v_samples AS v JOIN sqlite_master AS s ON s.rowid = 1 WHERE job_id = 1 GROUP BY 1 ORDER BY 2 DESC LIMIT 3;
