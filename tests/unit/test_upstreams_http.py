"""The client of an upstream, before a server that says just what a test has it say."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from gateways.core.serving import ServingError
from gateways.upstreams.http import Answer, Server

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LAST = OK.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n")


class Said:
    """What the server heard, a list for each connection, and how to end these."""

    def __init__(self) -> None:
        self.heard: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []


@asynccontextmanager
async def saying(answers: Sequence[bytes]) -> AsyncIterator[tuple[Server, Said]]:
    """A server that answers a call by the next of these, and one of no bytes by closing the connection."""
    said, left = Said(), iter(answers)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.heard.append([])
        said.writers.append(writer)
        while head := (await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""):
            said.heard[-1].append(head + await reader.readexactly(3))
            if not (answer := next(left)):
                break
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as listening:
        server = Server(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        yield server, said
        server.close()


async def ask(server: Server, *headers: tuple[str, str], limit_s: float = 60) -> Answer:
    return await (await server.connection()).post("/a", b"abc", headers, limit_s)


async def test_a_connection_is_kept_until_one_side_closes_it() -> None:
    """Also one that the server closes while it is free: the next call does not meet it."""
    async with saying([OK, LAST, OK, OK]) as (server, said):
        for _ in range(3):
            assert await ask(server) == (200, b"ok")
        assert [len(calls) for calls in said.heard] == [2, 1]
        said.writers[-1].close()
        while server.free[0].is_open():
            await asyncio.sleep(0.01)
        assert await ask(server) == (200, b"ok")
        assert [len(calls) for calls in said.heard] == [2, 1, 1]


async def test_what_is_sent() -> None:
    """No header can bring another one in."""
    async with saying([OK]) as (server, said):
        await ask(server, ("good", "1"), ("bad", "2\r\nworse: 3"))
        head, _, body = said.heard[0][0].partition(b"\r\n\r\n")
    assert (head.splitlines()[0], body) == (b"POST /a HTTP/1.1", b"abc")
    assert {line.partition(b":")[0] for line in head.splitlines()[1:]} == {b"host", b"content-length", b"good"}


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", OK[:-1]], ids=["none", "not HTTP", "cut off"])
async def test_no_answer_is_an_error(answer: bytes) -> None:
    """At once where the connection ends or does not speak HTTP, else when the time is up."""
    async with saying([answer]) as (server, _):
        with pytest.raises(ConnectionError):
            await ask(server, limit_s=0.2)
        assert not server.free


async def test_an_answer_in_parts() -> None:
    chunked = b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    async with saying([chunked]) as (server, _):
        assert await ask(server) == (503, b"ab")


@pytest.mark.parametrize("url", ["https://host:8080", "host:8080", "http://:8080"])
def test_an_address_that_it_does_not_know(url: str) -> None:
    with pytest.raises(ServingError, match="write it like http://"):
        Server(url)
