"""Servers without a model: what a call costs by itself."""
