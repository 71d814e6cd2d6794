"""The TCP connection under the light clients of both protocols."""

import socket

import gevent.socket


def connect(address: str) -> gevent.socket.socket:
    """To "host:port", or "[host]:port" for IPv6. Raises OSError.

    Nagle's algorithm is off, as in gRPC: with it the last piece of a large body would wait for an ACK.
    """
    host, _, port = address.rpartition(":")
    connected = gevent.socket.create_connection((host.strip("[]"), int(port)))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
