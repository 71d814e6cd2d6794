"""From visits to verdicts."""
