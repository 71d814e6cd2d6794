"""HTTP by the clients that Python programs use, each on one keep-alive connection: httpx, over HTTP/1.1 or over HTTP/2
from the first byte, requests, and the session of Locust's FastHttpUser. They take several times the CPU of
clients.http. They have rows of their own, which show how much of a comparison is its client.
"""

from typing import Any

import gevent
import httpx
import requests

from locustfiles.clients import Answer, CallError, Endpoint, Payload, tls


class LibraryClient:
    """What the clients of this module share: the address, the deadline, and what an answer is."""

    _session: Any
    """The library's: its `request` returns an answer with status_code, content and headers."""
    _body = "data"
    """What `request` calls the body."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._url = to.url
        # Answers as they arrive: most libraries would unpack a gzip answer inside the clock.
        self._headers = {"accept-encoding": "identity", "user-agent": "fiveway", **to.headers}
        self._connects = True  # with its first request

    def send(self, payload: Payload) -> Answer:
        if self._connects:
            self._to.on_connect()
            self._connects = False
        asked: dict[str, Any] = {"headers": {**self._headers, **payload.headers}, self._body: payload.body}
        try:
            with gevent.Timeout(self._to.deadline_s):
                answer = self._session.request(self._to.method, self._url, **asked)
        except gevent.Timeout:
            raise CallError(f"HTTP timeout: no answer in {self._to.deadline_s:g} s") from None
        except (httpx.HTTPError, requests.RequestException) as error:
            raise CallError(f"HTTP connection: {error}") from error
        if not answer.status_code:  # FastHttpSession's failures are answers
            raise CallError(f"HTTP connection: {answer.error}")
        body = answer.content or b""
        if answer.status_code != httpx.codes.OK:
            raise CallError(f"HTTP {answer.status_code}: {body[:200].decode(errors='replace').strip()}")
        return Answer(body, answer.headers or {})

    def close(self) -> None:
        self._session.close()


class HttpxClient(LibraryClient):
    _body = "content"

    def __init__(self, to: Endpoint, *, http2: bool = False) -> None:
        super().__init__(to)
        # No proxy of this machine's. No timeout of a single read or write: ours is for the call.
        self._session = httpx.Client(http1=not http2, http2=http2, verify=tls.verify(to), trust_env=False, timeout=None)


class RequestsClient(LibraryClient):
    def __init__(self, to: Endpoint) -> None:
        super().__init__(to)
        self._session = requests.Session()
        self._session.verify = tls.bundle() if to.tls else True
        self._session.trust_env = False  # no proxy of this machine's, and no search for one in each call


class FastHttpClient(LibraryClient):
    def __init__(self, to: Endpoint) -> None:
        # Importing Locust patches the standard library: only where users run.
        from locust.contrib.fasthttp import FastHttpSession
        from locust.event import EventHook

        super().__init__(to)
        # It reports each request to an event, besides our own report: nobody listens.
        self._session = FastHttpSession(
            None, EventHook(), None, insecure=False, ssl_context_factory=tls.context, max_retries=0
        )

    def close(self) -> None:
        self._session.client.clientpool.close()
