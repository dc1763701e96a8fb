"""Loss against size, data and context for several arms, on real text: docs/studies/scaling.md."""
