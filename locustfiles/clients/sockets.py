"""The TCP connection under the light clients of both protocols."""

import socket

import gevent.socket

from locustfiles.clients import HTTPS, tls


def connect(address: str, protocol: str = "http/1.1") -> gevent.socket.socket:
    """To "host:port", or "[host]:port" for IPv6; by TLS with https:// before it. Raises OSError.

    Nagle's algorithm is off, as in gRPC: with it the last piece of a large body would wait for an ACK.
    """
    host, _, port = address.removeprefix(HTTPS).rpartition(":")
    host = host.strip("[]")
    connected = gevent.socket.create_connection((host, int(port)))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.startswith(HTTPS):
        return connected
    try:
        return tls.context(protocol).wrap_socket(connected, server_hostname=host)
    except BaseException:
        connected.close()
        raise
