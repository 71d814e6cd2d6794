"""The servers of fiveway: one folder per protocol, their shared code, and the upstreams that they call."""
