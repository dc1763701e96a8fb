"""Tokens until recall emerges in small models trained from scratch: docs/studies/recall_from_scratch.md."""
