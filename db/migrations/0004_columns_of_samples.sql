-- Schema version 4: JSON values that readers need, as columns: views of an untrusted file may not call JSON functions.

-- Where the evidence begins (its first span), from 0, the start of the prompt, to 1; NULL without evidence.
ALTER TABLE samples ADD COLUMN depth REAL;
UPDATE samples SET depth = json_extract(evidence_json, '$[0].token_begin') * 1.0 / prompt_token_count
WHERE evidence_json IS NOT NULL AND prompt_token_count > 0;

-- The temperature of focal_attention that the checkpoint was trained with: a JSON number or list; NULL without one.
ALTER TABLE models ADD COLUMN focal_temperature_json TEXT;
UPDATE models SET focal_temperature_json = attention_json -> '$.focal_attention.temperature';

UPDATE schema_version SET version = 4, compatible_version = 1;
