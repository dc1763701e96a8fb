"""Tokens until recall emerges in small models trained from scratch: docs/findings.md, stage 2."""
