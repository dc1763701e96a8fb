-- Schema version 13: what tells a job that ends its process from a process that is ended from outside. Of the last start of a
-- job that has recorded no sample since: how long the process had run without this job before (0: it started at once, so
-- its end says nothing about the job), and how long the job has run, as written down after 1, 2, 4, .. seconds.
ALTER TABLE job_starts ADD COLUMN waited_us INTEGER NOT NULL DEFAULT 0 CHECK (waited_us >= 0);
ALTER TABLE job_starts ADD COLUMN lived_us INTEGER NOT NULL DEFAULT 0 CHECK (lived_us >= 0);
-- Starts in a row whose process had been well without the job for longer than it then lived with it.
ALTER TABLE job_starts ADD COLUMN charged_count INTEGER NOT NULL DEFAULT 0 CHECK (charged_count >= 0);

UPDATE schema_version SET version = 13, compatible_version = 1;
