"""TorchServe with our handler (routes `torchserve-http` and `torchserve-grpc`)."""

from pathlib import Path

ANSWERED = Path("/tmp/answered")
"""Touched whenever the model has answered. The health check reads its time."""

RETIRED = Path("/tmp/retired")
"""One file per retired model, touched whenever its worker refuses a request."""
