-- Schema version 7: jobs that were deleted. Their numbers are not given to other jobs: reports and notes name them.
CREATE TABLE deleted_jobs (
  job_id INTEGER NOT NULL PRIMARY KEY,
  suite TEXT NOT NULL,
  delete_us INTEGER NOT NULL
) STRICT;

UPDATE schema_version SET version = 7, compatible_version = 1;
