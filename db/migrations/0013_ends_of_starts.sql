-- Schema version 13: what distinguishes a job that ends its process from a process that is ended from outside.
CREATE TABLE job_charges (
  job_id INTEGER NOT NULL PRIMARY KEY REFERENCES job_starts (job_id) ON DELETE CASCADE,
  -- Of the last start: how long the process had run without this job before; 0 when it started at once, so that its end means
  -- nothing for the job.
  waited_us INTEGER NOT NULL CHECK (waited_us >= 0),
  -- How long the process has lived with the job since, as written after 1, 2, 4, .. seconds.
  lived_us INTEGER NOT NULL CHECK (lived_us >= 0),
  -- Starts in a row whose process had run longer without the job than with it.
  charged_count INTEGER NOT NULL CHECK (charged_count >= 0)
) STRICT;

UPDATE schema_version SET version = 13, compatible_version = 1;
