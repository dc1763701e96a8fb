"""Small llamas with every temperature of docs/studies: model, arms, training, folding."""
