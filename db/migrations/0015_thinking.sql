-- Schema version 15: the thinking blocks of answers.

-- Of answers that may have such blocks: how they are, how many of the new tokens are in them, and whether their end was forced.
-- NULL where a task's answers have none to be found.
ALTER TABLE generations ADD COLUMN thinking_state TEXT
  CHECK (thinking_state IN ('none', 'closed', 'unfinished', 'empty', 'nested', 'repeated'));
ALTER TABLE generations ADD COLUMN thinking_token_count INTEGER CHECK (thinking_token_count >= 0);
ALTER TABLE generations ADD COLUMN is_thinking_forced INTEGER CHECK (is_thinking_forced IN (0, 1));

UPDATE schema_version SET version = 15, compatible_version = 1;
