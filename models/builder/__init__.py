"""Makes what is served of a model.toml."""
