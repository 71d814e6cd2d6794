"""Measuring: cells, visits, and what counts them."""
