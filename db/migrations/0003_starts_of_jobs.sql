-- Schema version 3: starts of a job that led nowhere.

-- How often a job was started and its process died before it had recorded one sample or ended the job. The first
-- sample that is recorded and every orderly end remove the row.
CREATE TABLE job_starts (
  job_id INTEGER NOT NULL PRIMARY KEY REFERENCES jobs (job_id),
  unended_count INTEGER NOT NULL CHECK (unended_count > 0)
) STRICT;

UPDATE schema_version SET version = 3, compatible_version = 1;
