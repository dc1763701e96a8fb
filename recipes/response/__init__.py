"""Run-time temperatures of public models: docs/findings.md, stage 1. Suites, their text, compact rows and tables."""
