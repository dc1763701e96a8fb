-- Schema version 5: statistics of learned groups.

-- The share of prompt token pairs j <= i that attend to each other (mean over layers with groups), and the largest
-- share of prompt tokens in one group (of any layer). NULL without learned groups; the second also where all groups
-- always attend to each other and are not computed.
ALTER TABLE generations ADD COLUMN pairs_visible_share REAL;
ALTER TABLE generations ADD COLUMN largest_group_share REAL;

UPDATE schema_version SET version = 5, compatible_version = 1;
