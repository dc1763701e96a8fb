"""A small model that thinks in a block before it answers, and its questions."""
