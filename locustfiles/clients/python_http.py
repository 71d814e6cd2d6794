"""HTTP by httpx, pure Python, as many programs ask: over HTTP/1.1, or over HTTP/2 from the first byte on.

It takes several times the CPU of clients.http: a row of its own, to tell what a comparison owes to its client.
"""

from collections.abc import Callable, Mapping

import gevent
import httpx

from locustfiles.clients import DEADLINE_S, Answer, CallError, Payload


class HttpxClient:
    """One keep-alive connection to `address` ("host:port"), made by the first request and again after a failed one."""

    def __init__(
        self,
        address: str,
        path: str,
        headers: Mapping[str, str],
        deadline_s: float = DEADLINE_S,
        on_connect: Callable[[], None] = lambda: None,
        *,
        http2: bool = False,
        method: str = "POST",
    ) -> None:
        # No TLS here, so no certificates: to load them takes 20 ms. No proxy of this machine's. No timeout of a single
        # read or write: ours is for the call.
        self._client = httpx.Client(http1=not http2, http2=http2, verify=False, trust_env=False, timeout=None)
        self._method, self._url = method, f"http://{address}{path}"
        # Answers as they are: it would unpack a gzip answer inside the clock.
        self._headers = {"accept-encoding": "identity", "user-agent": "fiveway", **headers}
        self._deadline_s = deadline_s
        self._on_connect: Callable[[], None] | None = on_connect

    def send(self, payload: Payload) -> Answer:
        if self._on_connect:  # it connects with the first request
            self._on_connect()
            self._on_connect = None
        headers = {**self._headers, **payload.headers}
        try:
            with gevent.Timeout(self._deadline_s):
                response = self._client.request(self._method, self._url, content=payload.body, headers=headers)
        except gevent.Timeout:
            raise CallError(f"HTTP timeout: no answer in {self._deadline_s:g} s") from None
        except httpx.HTTPError as error:
            raise CallError(f"HTTP connection: {error}") from error
        if response.status_code != httpx.codes.OK:
            raise CallError(f"HTTP {response.status_code}: {response.text[:200].strip()}")
        return Answer(response.content, response.headers)

    def close(self) -> None:
        self._client.close()
