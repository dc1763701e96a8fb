-- Schema version 1. Every column is stated on insert (no DEFAULT), every table is STRICT.
-- Times are microseconds since 1970-01-01 UTC; durations are microseconds; hashes are 64 lower-case hexadecimal characters.

-- A program may open the file if its own schema version is compatible_version or later, and migrate it if above
-- version.
CREATE TABLE schema_version (
  schema_version_id INTEGER NOT NULL PRIMARY KEY CHECK (schema_version_id = 1),
  version INTEGER NOT NULL,
  compatible_version INTEGER NOT NULL CHECK (compatible_version BETWEEN 1 AND version)
) STRICT;
INSERT INTO schema_version (schema_version_id, version, compatible_version) VALUES (1, 1, 1);

-- One start of a daemon.
CREATE TABLE executions (
  execution_id INTEGER NOT NULL PRIMARY KEY,
  code_version TEXT NOT NULL,
  backend TEXT NOT NULL,
  instruction_set TEXT NOT NULL,
  device TEXT NOT NULL,
  host TEXT NOT NULL,
  thread_count INTEGER NOT NULL CHECK (thread_count >= 0),
  command_line TEXT NOT NULL,
  start_us INTEGER NOT NULL
) STRICT;

-- A checkpoint as it was loaded; attention_json is what it was trained with.
CREATE TABLE models (
  model_id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  architecture TEXT NOT NULL,
  weights_sha256 TEXT NOT NULL CHECK (length(weights_sha256) = 64),
  tokenizer_sha256 TEXT NOT NULL CHECK (length(tokenizer_sha256) = 64),
  dtype TEXT NOT NULL,
  attention_json TEXT NOT NULL CHECK (json_valid(attention_json)),
  context_length_max INTEGER NOT NULL CHECK (context_length_max >= 0),
  trained_context_length INTEGER
) STRICT;
CREATE INDEX models_by_weights ON models (weights_sha256);

CREATE TABLE jobs (
  job_id INTEGER NOT NULL PRIMARY KEY,
  suite TEXT NOT NULL,
  spec_json TEXT NOT NULL CHECK (json_valid(spec_json)),
  spec_sha256 TEXT NOT NULL CHECK (length(spec_sha256) = 64),
  data_seed INTEGER NOT NULL,
  request_id TEXT UNIQUE,
  body_sha256 TEXT CHECK ((request_id IS NULL) = (body_sha256 IS NULL)),
  state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')),
  error TEXT CHECK ((state = 'failed') = (error IS NOT NULL)),
  create_us INTEGER NOT NULL,
  start_us INTEGER,
  end_us INTEGER CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (end_us IS NOT NULL))
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, job_id);

-- focal_temperature_json is the run-time temperature; NULL: the model runs as it was trained.
CREATE TABLE variants (
  variant_id INTEGER NOT NULL PRIMARY KEY,
  job_id INTEGER NOT NULL REFERENCES jobs (job_id),
  variant_index INTEGER NOT NULL CHECK (variant_index >= 0),
  name TEXT NOT NULL,
  model_id INTEGER NOT NULL REFERENCES models (model_id),
  focal_temperature_json TEXT CHECK (focal_temperature_json IS NULL OR json_valid(focal_temperature_json)),
  UNIQUE (job_id, name),
  UNIQUE (job_id, variant_index)
) STRICT;

-- worst_value counts for a failed sample. NULL: the metric has no worst value.
CREATE TABLE task_metrics (
  job_id INTEGER NOT NULL REFERENCES jobs (job_id),
  task TEXT NOT NULL,
  metric TEXT NOT NULL,
  metric_index INTEGER NOT NULL CHECK (metric_index >= 0),
  is_binary INTEGER NOT NULL CHECK (is_binary IN (0, 1)),
  worst_value REAL,
  best_value REAL,
  PRIMARY KEY (job_id, task, metric),
  UNIQUE (job_id, task, metric_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE cells (
  cell_id INTEGER NOT NULL PRIMARY KEY,
  variant_id INTEGER NOT NULL REFERENCES variants (variant_id),
  task TEXT NOT NULL,
  context_length INTEGER NOT NULL CHECK (context_length > 0),
  planned_count INTEGER NOT NULL CHECK (planned_count BETWEEN 0 AND 10000000),
  UNIQUE (variant_id, task, context_length)
) STRICT;

-- The question, shared by all variants with the same tokenizer. token_ids_sha256 and prompt_token_count are NULL when
-- no prompt could be built.
CREATE TABLE samples (
  sample_id INTEGER NOT NULL PRIMARY KEY,
  job_id INTEGER NOT NULL REFERENCES jobs (job_id),
  task TEXT NOT NULL,
  context_length INTEGER NOT NULL CHECK (context_length > 0),
  sample_index INTEGER NOT NULL CHECK (sample_index >= 0),
  tokenizer_sha256 TEXT NOT NULL,
  question_id TEXT NOT NULL,
  cluster TEXT NOT NULL,
  row_id TEXT NOT NULL,
  token_ids_sha256 TEXT CHECK (token_ids_sha256 IS NULL OR length(token_ids_sha256) = 64),
  prompt_token_count INTEGER CHECK ((prompt_token_count IS NULL) = (token_ids_sha256 IS NULL)),
  new_token_count_max INTEGER NOT NULL CHECK (new_token_count_max >= 0),
  gold_json TEXT NOT NULL CHECK (json_valid(gold_json)),
  continuations_json TEXT CHECK (continuations_json IS NULL OR json_valid(continuations_json)),
  evidence_json TEXT CHECK (evidence_json IS NULL OR json_valid(evidence_json)),
  truncation_json TEXT CHECK (truncation_json IS NULL OR json_valid(truncation_json)),
  excerpt TEXT CHECK (excerpt IS NULL OR length(CAST(excerpt AS BLOB)) <= 4096),
  prompt TEXT,
  UNIQUE (job_id, task, context_length, sample_index, tokenizer_sha256)
) STRICT;

-- The answer of a variant. error_code is NULL on success; a failed row has no answer and no scores.
CREATE TABLE generations (
  generation_id INTEGER NOT NULL PRIMARY KEY,
  cell_id INTEGER NOT NULL REFERENCES cells (cell_id),
  sample_id INTEGER NOT NULL REFERENCES samples (sample_id),
  execution_id INTEGER NOT NULL REFERENCES executions (execution_id),
  attempt_count INTEGER NOT NULL CHECK (attempt_count >= 1),
  record_us INTEGER NOT NULL,
  finish_reason TEXT CHECK ((finish_reason IS NULL) = (error_code IS NOT NULL)),
  answer_raw TEXT CHECK (answer_raw IS NULL OR error_code IS NULL),
  answer TEXT CHECK (answer IS NULL OR error_code IS NULL),
  log_likelihoods_json TEXT CHECK (log_likelihoods_json IS NULL OR json_valid(log_likelihoods_json)),
  new_token_count INTEGER NOT NULL CHECK (new_token_count >= 0),
  cached_token_count INTEGER NOT NULL CHECK (cached_token_count >= 0),
  queue_us INTEGER NOT NULL,
  prefill_us INTEGER NOT NULL,
  decode_us INTEGER NOT NULL,
  tau_low_share REAL,
  tau_high_share REAL,
  is_extrapolated INTEGER NOT NULL CHECK (is_extrapolated IN (0, 1)),
  error_code TEXT CHECK (error_code <> ''),
  error_message TEXT CHECK ((error_message IS NULL) = (error_code IS NULL)),
  UNIQUE (cell_id, sample_id)
) STRICT;
CREATE INDEX generations_by_sample ON generations (sample_id);

CREATE TABLE scores (
  generation_id INTEGER NOT NULL REFERENCES generations (generation_id),
  metric TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (generation_id, metric)
) STRICT, WITHOUT ROWID;
