"""A closed loop with asyncio and uvloop, by the clients that asyncio programs use. bench/measure/generators.py starts
it and says what it prints.

    python -m bench.generators.aio --client aiohttp --protocol HTTP --address HOST:PORT --path /... FILE...

A file holds the body of a request.
"""

import asyncio
import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import uvloop

PAUSE_AFTER_FAILURE_S = 0.1
"""As locustfiles.user: a route that is down answers at once."""


class Client(Protocol):
    """One caller's connection."""

    async def send(self, body: int) -> None:
        """Send the body with this number and read the answer. Raises what the library raises."""

    async def close(self) -> None: ...


class Aiohttp:
    def __init__(self, to: Namespace, bodies: Sequence[bytes]) -> None:
        import aiohttp

        self._url, self._headers, self._bodies = f"http://{to.address}{to.path}", to.headers, bodies
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1), timeout=aiohttp.ClientTimeout(to.deadline_s), auto_decompress=False
        )

    async def send(self, body: int) -> None:
        async with self._session.post(self._url, data=self._bodies[body], headers=self._headers) as answer:
            await answer.read()
            answer.raise_for_status()

    async def close(self) -> None:
        await self._session.close()


class GrpcAio:
    def __init__(self, to: Namespace, bodies: Sequence[bytes]) -> None:
        import grpc.aio

        from locustfiles.clients.triton import CHANNEL

        self._bodies, self._deadline, self._metadata = bodies, to.deadline_s, tuple(to.headers.items())
        self._channel = grpc.aio.insecure_channel(to.address, options=CHANNEL)
        self._call: Any = self._channel.unary_unary(to.path)

    async def send(self, body: int) -> None:
        await self._call(self._bodies[body], timeout=self._deadline, metadata=self._metadata)

    async def close(self) -> None:
        await self._channel.close()


class TritonAio:
    """tritonclient.http.aio or tritonclient.grpc.aio, as locustfiles.clients.triton uses the other two."""

    def __init__(self, to: Namespace, bodies: Sequence[bytes]) -> None:
        from locustfiles.clients import Payload, triton

        every: dict[str, Any] = {"headers": to.headers}
        if to.protocol == "gRPC":
            import tritonclient.grpc.aio as library

            self._client = library.InferenceServerClient(to.address, channel_args=triton.CHANNEL)
            every["client_timeout"] = to.deadline_s
        else:
            import tritonclient.http.aio as library

            self._client = library.InferenceServerClient(to.address, conn_limit=1, conn_timeout=to.deadline_s)
        payloads = [Payload(body, 1, to.headers) for body in bodies]
        self._ready = [triton.arguments(library, to.protocol, to.path, payload) | every for payload in payloads]

    async def send(self, body: int) -> None:
        asked = self._ready[body]
        result = await self._client.infer(**asked)
        for output in asked["outputs"]:
            result.as_numpy(output.name())

    async def close(self) -> None:
        await self._client.close()


CLIENTS: dict[str, Callable[[Namespace, Sequence[bytes]], Client]] = {
    "aiohttp": Aiohttp,
    "grpc-aio": GrpcAio,
    "tritonclient-aio": TritonAio,
}


def told(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except TypeError:  # tritonclient cannot print an error whose text came as JSON
        return f"{type(error).__name__}: {vars(error)}"


async def run(clients: Sequence[Client], bodies: int, seconds: float, steady: float) -> dict[str, Any]:
    """All callers call for so long; the numbers of the window, whose last part (`steady`) has the latencies."""
    cpu, begin = time.process_time(), time.perf_counter()
    end, steady_from = begin + seconds, begin + (1 - steady) * seconds
    latencies, errors = Counter[int](), Counter[str]()
    requests = failures = 0
    sum_s = steady_requests = 0.0

    async def user(client: Client, turn: int) -> None:
        nonlocal requests, failures, sum_s, steady_requests
        while (start := time.perf_counter()) < end:
            try:
                await client.send(turn % bodies)
            except Exception as error:  # whatever the library raises is a failed call
                failures += 1
                errors[told(error)[:200]] += 1
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
                continue
            finally:
                turn += 1
            done = time.perf_counter()
            requests += 1
            sum_s += done - start
            if start >= steady_from:
                latencies[round((done - start) * 1e6)] += 1
            steady_requests += max(0.0, (min(done, end) - max(start, steady_from)) / (done - start))

    await asyncio.gather(*(user(client, number) for number, client in enumerate(clients)))
    return {
        "requests": requests,
        "failures": failures,
        "errors": dict(errors),
        "steady_s": end - steady_from,
        "steady_requests": steady_requests,
        "counted_s": time.perf_counter() - begin,
        "sum_ms": sum_s * 1e3,
        "cpu_ms": (time.process_time() - cpu) * 1e3,
        "latencies_us": sorted(latencies.items()),
    }


async def load(to: Namespace) -> None:
    bodies = [file.read_bytes() for file in to.files]
    clients = [CLIENTS[to.client](to, bodies) for _ in range(to.users)]
    await run(clients, len(bodies), to.warm_s, 1.0)
    print("idle", flush=True)
    if not sys.stdin.readline():
        sys.exit("aio: no line on stdin that says go")
    print(json.dumps(await run(clients, len(bodies), to.seconds, to.steady)), flush=True)
    await asyncio.gather(*(client.close() for client in clients))


def main() -> None:
    parser = ArgumentParser(description="A closed loop with asyncio.")
    parser.add_argument("--client", choices=CLIENTS, required=True)
    for name in ("protocol", "address", "path", "policy"):
        parser.add_argument(f"--{name}", required=name != "policy")
    parser.add_argument("--users", type=int, default=1)
    for name, default in (("warm-s", 1.0), ("seconds", 5.0), ("steady", 1.0), ("deadline-s", 30.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("files", type=Path, nargs="+")
    to = parser.parse_args()
    to.headers = dict(one.split("=", 1) for one in to.header)
    uvloop.run(load(to))


if __name__ == "__main__":
    main()
