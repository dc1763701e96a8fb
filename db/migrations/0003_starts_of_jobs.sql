-- Schema version 3: starts of a job without progress.

-- How often in a row a job was started and the process died before it recorded a sample or ended the job. The first
-- recorded sample and every regular end delete the row.
CREATE TABLE job_starts (
  job_id INTEGER NOT NULL PRIMARY KEY REFERENCES jobs (job_id),
  unended_count INTEGER NOT NULL CHECK (unended_count > 0)
) STRICT;

UPDATE schema_version SET version = 3, compatible_version = 1;
