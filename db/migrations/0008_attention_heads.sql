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

CREATE VIEW v_attention (
  job_id, variant, task, context_length, sample_index, question_id, layer, head, scale, entropy, largest_weight,
  first_mass, evidence_mass, distractor_mass, question_mass
) AS
SELECT variants.job_id, variants.name, samples.task, samples.context_length, samples.sample_index, samples.question_id,
  attention_heads.layer, attention_heads.head, attention_heads.scale, attention_heads.entropy,
  attention_heads.largest_weight, attention_heads.first_mass, attention_heads.evidence_mass,
  attention_heads.distractor_mass, attention_heads.question_mass
FROM attention_heads
JOIN generations ON generations.generation_id = attention_heads.generation_id
JOIN cells ON cells.cell_id = generations.cell_id
JOIN variants ON variants.variant_id = cells.variant_id
JOIN samples ON samples.sample_id = generations.sample_id;

UPDATE schema_version SET version = 8, compatible_version = 1;
