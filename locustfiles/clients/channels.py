"""The channel of grpcio, with TLS where the address says so. Apart from grpcio.py, which needs gevent's patches."""

from collections.abc import Sequence
from pathlib import Path

import grpc

from locustfiles.clients import Endpoint, tls


def channel(to: Endpoint, options: Sequence[tuple[str, int]]) -> grpc.Channel:
    """Connects with its first call. Raises OSError as tls.bundle does."""
    if not to.tls:
        return grpc.insecure_channel(to.host, options=options)
    roots = grpc.ssl_channel_credentials(Path(tls.bundle()).read_bytes())
    return grpc.secure_channel(to.host, roots, options=options)
