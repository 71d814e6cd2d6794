"""The rows of study `base`: another answer is wrong, and what the client of httpx says."""

import json

import pytest

from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, CallError, Endpoint, Payload
from locustfiles.clients.python_http import HttpxClient
from locustfiles.study_routes import WAYS
from tests.unit.locust_servers import standing_in


@pytest.mark.parametrize("row", ["echo-http-structured", "echo-grpc-binary", "echo-grpc-stream-structured"])
def test_another_answer_is_wrong(row: str) -> None:
    """No entries, and no message."""
    for body in (b"", b"{}", b'{"entries":[{"label":"entry 0","score":1.0}]}'):
        with pytest.raises(WrongAnswer):
            WAYS[row].format.check(Answer(body), 1)


def test_the_client_of_httpx_says_what_went_wrong(photo: bytes) -> None:
    """It sends as the other client does; a refused call and a closed port are errors with equal texts."""
    opened: list[int] = []
    with standing_in(0) as servers:
        address = f"127.0.0.1:{servers.http_port}"
        client = HttpxClient(Endpoint(address, "/predictions/tiny", on_connect=lambda: opened.append(1)))
        for _ in range(2):
            answer = client.send(Payload(photo, 1))
            assert json.loads(answer.body)["embedding"]
            assert answer.headers["Content-Length"] == str(len(answer.body))
        client.close()
        assert opened == [1]
        with pytest.raises(CallError, match=r"^HTTP 404: .*no such path"):
            HttpxClient(Endpoint(address, "/nowhere")).send(Payload(b"", 1))
    with pytest.raises(CallError, match=r"^HTTP connection: "):
        HttpxClient(Endpoint("127.0.0.1:1", "/"), http2=True).send(Payload(b"", 1))
