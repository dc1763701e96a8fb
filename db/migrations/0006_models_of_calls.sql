-- Schema version 6: state of a running daemon that the next start needs.

-- Models that LoadModel named and UnloadModel has not: the next start loads them again. directory is absolute.
CREATE TABLE called_models (
  name TEXT NOT NULL PRIMARY KEY,
  directory TEXT NOT NULL,
  load_us INTEGER NOT NULL
) STRICT;

-- Jobs whose last resume allowed answers of another code version, backend or instruction set beside the earlier ones.
CREATE TABLE mixed_jobs (
  job_id INTEGER NOT NULL PRIMARY KEY REFERENCES jobs (job_id)
) STRICT;

UPDATE schema_version SET version = 6, compatible_version = 1;
