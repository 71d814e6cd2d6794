"""HTTP by the clients that Python programs use, each on one keep-alive connection: httpx, over HTTP/1.1 or over HTTP/2
from the first byte, requests, and the session of Locust's FastHttpUser. They take several times the CPU of
clients.http. They have rows of their own, which show how much of a comparison is its client.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import gevent
import httpx
import requests

from locustfiles.clients import Answer, CallError, Endpoint, Payload, tls


class LibraryClient:
    """What the clients of this module share: the address, the deadline, and what an answer is."""

    errors: ClassVar[type[Exception]]
    """What the library raises where the call fails."""

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
        try:
            with gevent.Timeout(self._to.deadline_s):
                status, body, headers = self._ask(payload.body, {**self._headers, **payload.headers})
        except gevent.Timeout:
            raise CallError(f"HTTP timeout: no answer in {self._to.deadline_s:g} s") from None
        except self.errors as error:
            raise CallError(f"HTTP connection: {error}") from error
        if status != httpx.codes.OK:
            raise CallError(f"HTTP {status}: {body[:200].decode(errors='replace').strip()}")
        return Answer(body, headers)

    def _ask(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, Mapping[str, Any]]:
        """(status, body, headers) of the answer."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class HttpxClient(LibraryClient):
    errors = httpx.HTTPError

    def __init__(self, to: Endpoint, *, http2: bool = False) -> None:
        super().__init__(to)
        # No proxy of this machine's. No timeout of a single read or write: ours is for the call.
        self._client = httpx.Client(http1=not http2, http2=http2, verify=tls.verify(to), trust_env=False, timeout=None)

    def _ask(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, Mapping[str, Any]]:
        response = self._client.request(self._to.method, self._url, content=body, headers=headers)
        return response.status_code, response.content, response.headers

    def close(self) -> None:
        self._client.close()


class RequestsClient(LibraryClient):
    errors = requests.RequestException

    def __init__(self, to: Endpoint) -> None:
        super().__init__(to)
        self._session = requests.Session()
        self._session.verify = tls.bundle() if to.tls else True
        self._session.trust_env = False  # no proxy of this machine's, and no search for one in each call

    def _ask(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, Mapping[str, Any]]:
        response = self._session.request(self._to.method, self._url, data=body, headers=headers)
        return response.status_code, response.content, response.headers

    def close(self) -> None:
        self._session.close()


class NoAnswer(Exception):
    """FastHttpSession's failures are answers with status 0."""


class FastHttpClient(LibraryClient):
    errors = NoAnswer

    def __init__(self, to: Endpoint) -> None:
        # Importing Locust patches the standard library: only where users run.
        from locust.contrib.fasthttp import FastHttpSession
        from locust.event import EventHook

        super().__init__(to)
        # It reports each request to an event, besides our own report: nobody listens.
        self._session = FastHttpSession(
            None, EventHook(), None, insecure=False, ssl_context_factory=tls.context, max_retries=0
        )

    def _ask(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, Mapping[str, Any]]:
        # It takes bytes too, and answers with a FastResponse, or with one that has an `error`.
        response: Any = self._session.request(self._to.method, self._url, data=body, headers=dict(headers))  # type: ignore[arg-type]
        if not response.status_code:
            raise NoAnswer(str(response.error))
        return response.status_code, response.content or b"", response.headers or {}

    def close(self) -> None:
        self._session.client.clientpool.close()
