"""TorchServe with a handler of ours (routes `torchserve-http` and `torchserve-grpc`)."""

from pathlib import Path

ANSWERED = Path("/tmp/answered")
"""Touched whenever the model has answered: the proof of life that the healthcheck reads."""

RETIRED = Path("/tmp/retired")
"""One file per retired model, touched whenever its worker refuses a request."""
