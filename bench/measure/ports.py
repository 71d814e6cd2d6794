"""A port for a server of this machine that is told its port before it listens."""

import random
import socket
from contextlib import suppress

BELOW_CONNECTIONS = range(10_000, 32_768)
"""Linux gives a connection's own end a port from 32768 on (net.ipv4.ip_local_port_range): no client takes one of these
before the server listens."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on."""
    while True:
        port = random.SystemRandom().choice(BELOW_CONNECTIONS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
