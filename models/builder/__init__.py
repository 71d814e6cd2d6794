"""Makes the served artefacts from a model.toml."""
