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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

PAUSE_AFTER_FAILURE_S = 0.1
"""As locustfiles.user: a route that is down answers at once."""


type Send = Callable[[int], Awaitable[None]]
"""Sends the body with this number and reads the answer. Raises what the library raises."""


@asynccontextmanager
async def by_aiohttp(to: Namespace, bodies: Sequence[bytes]) -> AsyncIterator[Send]:
    import aiohttp

    connector, limit = aiohttp.TCPConnector(limit=1), aiohttp.ClientTimeout(to.deadline_s)
    async with aiohttp.ClientSession(connector=connector, timeout=limit, auto_decompress=False) as session:

        async def send(body: int) -> None:
            url = f"http://{to.address}{to.path}"
            async with session.post(url, data=bodies[body], headers=to.headers) as answer:
                await answer.read()
                answer.raise_for_status()

        yield send


@asynccontextmanager
async def by_grpc(to: Namespace, bodies: Sequence[bytes]) -> AsyncIterator[Send]:
    import grpc.aio

    from locustfiles.clients.triton import CHANNEL

    metadata = tuple(to.headers.items())
    async with grpc.aio.insecure_channel(to.address, options=CHANNEL) as channel:
        call: Any = channel.unary_unary(to.path)

        async def send(body: int) -> None:
            await call(bodies[body], timeout=to.deadline_s, metadata=metadata)

        yield send


@asynccontextmanager
async def by_tritonclient(to: Namespace, bodies: Sequence[bytes]) -> AsyncIterator[Send]:
    """tritonclient.http.aio or tritonclient.grpc.aio, as locustfiles.clients.triton uses the other two."""
    from locustfiles.clients import Payload, triton

    every: dict[str, Any] = {"headers": to.headers}
    if to.protocol == "gRPC":
        import tritonclient.grpc.aio as library

        opened = library.InferenceServerClient(to.address, channel_args=triton.CHANNEL)
        every["client_timeout"] = to.deadline_s
    else:
        import tritonclient.http.aio as library

        opened = library.InferenceServerClient(to.address, conn_limit=1, conn_timeout=to.deadline_s)
    payloads = [Payload(body, 1, to.headers) for body in bodies]
    ready = [triton.arguments(library, to.protocol, to.path, payload) | every for payload in payloads]
    async with opened as client:

        async def send(body: int) -> None:
            result = await client.infer(**ready[body])
            for output in ready[body]["outputs"]:
                result.as_numpy(output.name())

        yield send


CLIENTS: Mapping[str, Callable[[Namespace, Sequence[bytes]], AbstractAsyncContextManager[Send]]] = {
    "aiohttp": by_aiohttp,
    "grpc-aio": by_grpc,
    "tritonclient-aio": by_tritonclient,
}
"""One caller's connection."""


def told(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except TypeError:  # tritonclient cannot print an error whose text came as JSON
        return f"{type(error).__name__}: {vars(error)}"


async def run(callers: Sequence[Send], bodies: int, seconds: float, steady: float) -> dict[str, Any]:
    """All callers call for so long; the numbers of the window, whose last part (`steady`) has the latencies."""
    cpu, begin = time.process_time(), time.perf_counter()
    end, steady_from = begin + seconds, begin + (1 - steady) * seconds
    latencies, errors = Counter[int](), Counter[str]()
    requests = failures = 0
    sum_s = steady_requests = 0.0

    async def user(send: Send, turn: int) -> None:
        nonlocal requests, failures, sum_s, steady_requests
        while (start := time.perf_counter()) < end:
            try:
                await send(turn % bodies)
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

    await asyncio.gather(*(user(send, number) for number, send in enumerate(callers)))
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
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(CLIENTS[to.client](to, bodies)) for _ in range(to.users)]
        await run(callers, len(bodies), to.warm_s, 1.0)
        print("idle", flush=True)
        while sys.stdin.readline():
            print(json.dumps(await run(callers, len(bodies), to.seconds, to.steady)), flush=True)


def main() -> None:
    parser = ArgumentParser(description="A closed loop with asyncio.")
    parser.add_argument("--client", choices=CLIENTS, required=True)
    for name in ("protocol", "address", "path", "policy"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--users", type=int, required=True)
    for name in ("warm-s", "seconds", "steady", "deadline-s"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("files", type=Path, nargs="+")
    to = parser.parse_args()
    to.headers = dict(one.split("=", 1) for one in to.header)
    uvloop.run(load(to))


if __name__ == "__main__":
    main()
