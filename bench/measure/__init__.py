"""Measuring: cells, visits, and the counters around them."""
