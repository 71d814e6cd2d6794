"""The serving side of fiveway: one folder per protocol, what these share, and the upstreams they call."""
