-- Schema version 17: an import replaces the scores of its metric in the cells that it has scores in.
-- import_id is that of one command, whose files and parts do not replace each other; cells_json has a [task, context length] for
-- each cell. NULL in rows of earlier versions: other than any, and all cells.
ALTER TABLE score_imports ADD COLUMN import_id TEXT;
ALTER TABLE score_imports ADD COLUMN cells_json TEXT CHECK (json_valid(cells_json));

UPDATE schema_version SET version = 17, compatible_version = 1;
