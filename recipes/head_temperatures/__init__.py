"""One temperature per head of a frozen checkpoint, fitted to text: docs/studies/head_temperatures.md."""
