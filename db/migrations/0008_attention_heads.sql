-- Schema version 8: what the last row of a prompt attends to, for jobs that asked for it.

-- Per layer and head. Masses are shares of the head's weight, NULL where the sample has no such spans; entropy is in nats;
-- scale is what q.k was multiplied with. strip: equal parts of the prompt from its start, two hexadecimal digits each, 0
-- for less than 2^-15.875, else n for a mass of 2^((n - 255) / 16).
CREATE TABLE attention_heads (
  generation_id INTEGER NOT NULL REFERENCES generations (generation_id),
  layer INTEGER NOT NULL,
  head INTEGER NOT NULL,
  scale REAL NOT NULL,
  entropy REAL NOT NULL,
  largest_weight REAL NOT NULL,
  first_mass REAL NOT NULL,
  evidence_mass REAL,
  distractor_mass REAL,
  question_mass REAL,
  strip TEXT NOT NULL,
  PRIMARY KEY (generation_id, layer, head)
) STRICT, WITHOUT ROWID;

UPDATE schema_version SET version = 8, compatible_version = 1;
