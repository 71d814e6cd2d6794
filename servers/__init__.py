"""Our code inside other projects' servers."""

from pathlib import Path

ENGINE = Path("/tmp/engine.json")
"""What computes in TorchServe and in the peers, as gateways.upstreams.torch.engine says it: scripts/host-facts reads
it."""
