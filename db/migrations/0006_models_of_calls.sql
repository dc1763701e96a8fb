-- Schema version 6: daemon state that survives a restart.

-- Models loaded by LoadModel and not unloaded since: the next start loads them again. directory is absolute.
CREATE TABLE called_models (
  name TEXT NOT NULL PRIMARY KEY,
  directory TEXT NOT NULL,
  load_us INTEGER NOT NULL
) STRICT;

-- Jobs whose last resume allowed mixing answers of different code versions, backends or instruction sets.
CREATE TABLE mixed_jobs (
  job_id INTEGER NOT NULL PRIMARY KEY REFERENCES jobs (job_id)
) STRICT;

UPDATE schema_version SET version = 6, compatible_version = 1;
