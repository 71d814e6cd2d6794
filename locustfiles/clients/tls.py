"""Whom the clients trust at an address with https://: the public authorities, and the certificate of TLS_CA.

Everybody else's certificate, and one for another name, ends the connection.
"""

import os
import ssl
import tempfile
from functools import cache
from pathlib import Path

import certifi
import gevent.ssl

from locustfiles.clients import Endpoint

SECRET = "/run/secrets/tls_ca"
"""Where the stack's own containers have TLS_CA; empty without one."""


@cache
def bundle() -> str:
    """Path of a PEM file with all of them. Raises OSError where TLS_CA names no file."""
    own = Path(os.environ.get("TLS_CA") or SECRET)
    named = own.read_text() if os.environ.get("TLS_CA") or own.exists() else ""
    handle, path = tempfile.mkstemp(suffix=".pem")
    with open(handle, "w") as file:
        file.write(certifi.contents() + named)
    return path


def verify(to: Endpoint) -> ssl.SSLContext | bool:
    """What httpx takes for this address. Without TLS no certificates: to load them takes 20 ms."""
    return ssl.create_default_context(cafile=bundle()) if to.tls else False


@cache
def context(protocol: str = "http/1.1") -> gevent.ssl.SSLContext:
    """For a socket that speaks this protocol of ALPN: http/1.1 or h2. Raises OSError as `bundle` does."""
    made = gevent.ssl.SSLContext(gevent.ssl.PROTOCOL_TLS_CLIENT)  # it asks for a certificate with the right name
    made.load_verify_locations(bundle())
    made.set_alpn_protocols([protocol])
    return made
