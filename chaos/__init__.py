"""What the running stack does when things go wrong: faults, overload, rude clients, hostile input, and a long load.

`scripts/chaos` runs it; docs/reliability.md is made of its results. The load is the same as Locust's, with the same
clients and checks.
"""
