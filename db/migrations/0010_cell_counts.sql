-- Schema version 10: answers and failures of a cell, counted as they are recorded, so that the progress of a job of a
-- million samples is read from its cells. The triggers keep the counts whoever writes; a row of zeros is removed.
CREATE TABLE cell_counts (
  cell_id INTEGER NOT NULL REFERENCES cells (cell_id),
  execution_id INTEGER NOT NULL REFERENCES executions (execution_id),
  answered_count INTEGER NOT NULL CHECK (answered_count >= 0),
  failed_count INTEGER NOT NULL CHECK (failed_count >= 0),
  PRIMARY KEY (cell_id, execution_id)
) STRICT, WITHOUT ROWID;

INSERT INTO cell_counts (cell_id, execution_id, answered_count, failed_count)
  SELECT cell_id, execution_id, sum(error_code IS NULL), sum(error_code IS NOT NULL)
  FROM generations GROUP BY cell_id, execution_id;

CREATE TRIGGER generations_count_insert AFTER INSERT ON generations BEGIN
  INSERT INTO cell_counts (cell_id, execution_id, answered_count, failed_count)
    VALUES (NEW.cell_id, NEW.execution_id, NEW.error_code IS NULL, NEW.error_code IS NOT NULL)
    ON CONFLICT (cell_id, execution_id) DO UPDATE SET
      answered_count = answered_count + excluded.answered_count, failed_count = failed_count + excluded.failed_count;
END;

CREATE TRIGGER generations_count_delete AFTER DELETE ON generations BEGIN
  UPDATE cell_counts SET answered_count = answered_count - (OLD.error_code IS NULL),
    failed_count = failed_count - (OLD.error_code IS NOT NULL)
    WHERE cell_id = OLD.cell_id AND execution_id = OLD.execution_id;
  DELETE FROM cell_counts WHERE cell_id = OLD.cell_id AND execution_id = OLD.execution_id
    AND answered_count = 0 AND failed_count = 0;
END;

CREATE TRIGGER generations_count_update AFTER UPDATE OF cell_id, execution_id, error_code ON generations BEGIN
  UPDATE cell_counts SET answered_count = answered_count - (OLD.error_code IS NULL),
    failed_count = failed_count - (OLD.error_code IS NOT NULL)
    WHERE cell_id = OLD.cell_id AND execution_id = OLD.execution_id;
  DELETE FROM cell_counts WHERE cell_id = OLD.cell_id AND execution_id = OLD.execution_id
    AND answered_count = 0 AND failed_count = 0;
  INSERT INTO cell_counts (cell_id, execution_id, answered_count, failed_count)
    VALUES (NEW.cell_id, NEW.execution_id, NEW.error_code IS NULL, NEW.error_code IS NOT NULL)
    ON CONFLICT (cell_id, execution_id) DO UPDATE SET
      answered_count = answered_count + excluded.answered_count, failed_count = failed_count + excluded.failed_count;
END;

UPDATE schema_version SET version = 10, compatible_version = 1;
