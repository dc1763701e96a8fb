"""One temperature per head of a frozen checkpoint, fitted to text: docs/findings.md, stage 3."""
