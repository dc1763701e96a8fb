-- Schema version 16: several answers to one question. Each is a sample of its own, with the same question_id and prompt; the
-- epochs of a question have consecutive sample indices. NULL in rows of earlier versions, which are all of epoch 0.
ALTER TABLE samples ADD COLUMN epoch INTEGER CHECK (epoch >= 0);

UPDATE schema_version SET version = 16, compatible_version = 1;
