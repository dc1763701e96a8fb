"""Run-time temperatures of public models: docs/studies/public_model_text.md. Suites, their text, compact rows and tables."""
