-- Schema version 2: scores computed elsewhere (for example by a judge) after the answers were stored.

-- One file, one variant, one metric. The metric is called imported/NAME in task_metrics; its values are in scores.
CREATE TABLE score_imports (
  score_import_id INTEGER NOT NULL PRIMARY KEY,
  job_id INTEGER NOT NULL REFERENCES jobs (job_id),
  variant TEXT NOT NULL,
  metric TEXT NOT NULL,
  source TEXT NOT NULL,
  source_sha256 TEXT NOT NULL CHECK (length(source_sha256) = 64),
  value_count INTEGER NOT NULL CHECK (value_count > 0),
  import_us INTEGER NOT NULL
) STRICT;
CREATE INDEX score_imports_by_job ON score_imports (job_id);

UPDATE schema_version SET version = 2, compatible_version = 1;
