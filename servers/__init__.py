"""Our code inside other projects' servers."""

from pathlib import Path

ENGINE = Path("/tmp/engine.json")
"""What computes in TorchServe and in the peers, as gateways.upstreams.torchscript.engine says it:
scripts/host-facts reads it."""
