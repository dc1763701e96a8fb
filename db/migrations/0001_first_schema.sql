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

-- The views are an interface: docs/formats.md defines their columns.

CREATE VIEW v_scores_by_length (
  job_id, variant, task, metric, context_length, planned_count, answered_count, failed_count, mean, mean_answered
) AS
SELECT variants.job_id, variants.name, cells.task, task_metrics.metric, cells.context_length, cells.planned_count,
  count(scores.value), count(generations.error_code),
  CASE WHEN task_metrics.worst_value IS NOT NULL THEN
    avg(CASE WHEN generations.error_code IS NULL THEN scores.value ELSE task_metrics.worst_value END) END,
  avg(scores.value)
FROM cells
JOIN variants ON variants.variant_id = cells.variant_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN generations ON generations.cell_id = cells.cell_id
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric
GROUP BY cells.cell_id, task_metrics.metric;

CREATE VIEW v_samples (
  job_id, variant, task, context_length, sample_index, question_id, cluster, prompt_token_count, gold, answer, metric,
  value, error_code
) AS
SELECT variants.job_id, variants.name, samples.task, samples.context_length, samples.sample_index, samples.question_id,
  samples.cluster, samples.prompt_token_count, samples.gold_json, generations.answer, task_metrics.metric, scores.value,
  generations.error_code
FROM generations
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric;

CREATE VIEW v_pairs (
  job_id, task, metric, context_length, question_id, cluster, baseline_variant, candidate_variant, baseline_value,
  candidate_value, difference, baseline_error, candidate_error
) AS
SELECT b_variant.job_id, b_sample.task, task_metrics.metric, b_sample.context_length, b_sample.question_id,
  b_sample.cluster, b_variant.name, c_variant.name,
  CASE WHEN b.error_code IS NULL THEN b_score.value ELSE task_metrics.worst_value END,
  CASE WHEN c.error_code IS NULL THEN c_score.value ELSE task_metrics.worst_value END,
  CASE WHEN c.error_code IS NULL THEN c_score.value ELSE task_metrics.worst_value END
    - CASE WHEN b.error_code IS NULL THEN b_score.value ELSE task_metrics.worst_value END,
  b.error_code, c.error_code
FROM variants AS b_variant
JOIN variants AS c_variant ON c_variant.job_id = b_variant.job_id AND c_variant.variant_id <> b_variant.variant_id
JOIN models AS c_model ON c_model.model_id = c_variant.model_id
JOIN cells AS b_cell ON b_cell.variant_id = b_variant.variant_id
JOIN cells AS c_cell ON c_cell.variant_id = c_variant.variant_id AND c_cell.task = b_cell.task
  AND c_cell.context_length = b_cell.context_length
JOIN generations AS b ON b.cell_id = b_cell.cell_id
JOIN samples AS b_sample ON b_sample.sample_id = b.sample_id
JOIN samples AS c_sample ON c_sample.job_id = b_sample.job_id AND c_sample.task = b_sample.task
  AND c_sample.context_length = b_sample.context_length AND c_sample.sample_index = b_sample.sample_index
  AND c_sample.tokenizer_sha256 = c_model.tokenizer_sha256 AND c_sample.question_id = b_sample.question_id
JOIN generations AS c ON c.cell_id = c_cell.cell_id AND c.sample_id = c_sample.sample_id
JOIN task_metrics ON task_metrics.job_id = b_variant.job_id AND task_metrics.task = b_cell.task
LEFT JOIN scores AS b_score ON b_score.generation_id = b.generation_id AND b_score.metric = task_metrics.metric
LEFT JOIN scores AS c_score ON c_score.generation_id = c.generation_id AND c_score.metric = task_metrics.metric;

CREATE VIEW v_content (
  data_seed, variant, task, context_length, sample_index, metric, question_id, cluster, token_ids_sha256, gold,
  finish_reason, answer_raw, answer, log_likelihoods, new_token_count, error_code, value
) AS
SELECT jobs.data_seed, variants.name, samples.task, samples.context_length, samples.sample_index, task_metrics.metric,
  samples.question_id, samples.cluster, samples.token_ids_sha256, samples.gold_json, generations.finish_reason,
  generations.answer_raw, generations.answer, generations.log_likelihoods_json, generations.new_token_count,
  generations.error_code, scores.value
FROM generations
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN jobs ON jobs.job_id = variants.job_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task
LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric;
