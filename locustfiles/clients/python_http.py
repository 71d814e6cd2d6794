"""HTTP by httpx, a client in pure Python that many programs use: over HTTP/1.1, or over HTTP/2 from the first byte. It
takes several times the CPU of clients.http. It has rows of its own, which show how much of a comparison is its client.
"""

import gevent
import httpx

from locustfiles.clients import Answer, CallError, Endpoint, Payload


class HttpxClient:
    """One keep-alive connection."""

    def __init__(self, to: Endpoint, *, http2: bool = False) -> None:
        # No TLS here, so no certificates: to load them takes 20 ms. No proxy of this machine's. No timeout of a single
        # read or write: ours is for the call.
        self._client = httpx.Client(http1=not http2, http2=http2, verify=False, trust_env=False, timeout=None)
        self._to = to
        self._url = f"http://{to.address}{to.path}"
        # Answers as they arrive: httpx would unpack a gzip answer inside the clock.
        self._headers = {"accept-encoding": "identity", "user-agent": "fiveway", **to.headers}
        self._connects = True  # with its first request

    def send(self, payload: Payload) -> Answer:
        if self._connects:
            self._to.on_connect()
            self._connects = False
        headers = {**self._headers, **payload.headers}
        try:
            with gevent.Timeout(self._to.deadline_s):
                response = self._client.request(self._to.method, self._url, content=payload.body, headers=headers)
        except gevent.Timeout:
            raise CallError(f"HTTP timeout: no answer in {self._to.deadline_s:g} s") from None
        except httpx.HTTPError as error:
            raise CallError(f"HTTP connection: {error}") from error
        if response.status_code != httpx.codes.OK:
            raise CallError(f"HTTP {response.status_code}: {response.text[:200].strip()}")
        return Answer(response.content, response.headers)

    def close(self) -> None:
        self._client.close()
