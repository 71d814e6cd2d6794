"""Ours, inside servers that are not."""
