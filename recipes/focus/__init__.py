"""Focus: attention over learned groups of tokens, trained on top of transformers' models (docs/focus.md)."""
