"""Small llamas with every temperature of docs/findings.md: model, arms, training, folding."""
