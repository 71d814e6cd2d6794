"""Requests that are nearly right, on every route: no crash, no undeclared error, nothing of the inside in an answer.

A case is a real request with a few mutations, which a seed decides. What a case sent can be had again from its seed.
"""

import contextlib
import http.client
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import gevent
from hyperframe import frame as frames

from chaos import docker
from chaos.load import Target, edge_of
from locustfiles.calls import endpoint_of
from locustfiles.clients import CallError, Payload, key
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.http2 import PREFACE
from locustfiles.clients.sockets import connect

WORKERS = 4
RAW = "raw bytes"
LENGTH = "inference-header-content-length"
MOST_WRONG = 10
TIMEOUT_S = 30.0
DECLARED = {f"HTTP {code}" for code in (200, 400, 401, 404, 405, 408, 411, 413, 415, 422, 426, 429, 431, 503, 504)} | {
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED",
}  # fmt: skip
"""What docs/errors.md knows. A raw connection is `closed` or `answered`."""
INSIDE = re.compile(
    r"Traceback|site-packages|/(?:app|opt|usr|artifacts|tmp|home)/|\.py\b|\bat (?:org|java|io)\.|0x[0-9a-f]{8,}"
)
HEAD = 400
"""Bytes at the front of a request, where what describes it stands: most mutations are there."""
NUMBERS = (b"0", b"-1", b"1", b"2147483648", b"18446744073709551616", b"1e999", b"NaN")
PIECES = (
    b"\x00",
    b"\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"[" * 200,
    b"{",
    b'"',
    b"null",
    b"%s%n",
    b"\r\n\r\n",
)
MULTIPART = (
    b'--b\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
)

Ask = Callable[[random.Random], tuple[str, str]]
"""Sends one case; what came back, `HTTP 400` or a gRPC status, and its text."""


def mutated(body: bytes, chance: random.Random) -> bytes:
    """One to four changes: a bit, a number, a piece more, less or twice, or the end cut off."""
    found = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(max(1, min(len(found), HEAD if chance.random() < 0.8 else len(found))))
        match chance.randrange(6):
            case 0 if found:
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                found[at:at] = chance.choice(PIECES)
            case 2:
                del found[at : at + chance.randint(1, 40)]
            case 3:
                found[at:at] = found[at : at + chance.randint(1, 40)]
            case 4:
                numbers = list(re.finditer(rb"\d+", found[:HEAD]))
                if numbers:
                    start, end = chance.choice(numbers).span()
                    found[start:end] = chance.choice(NUMBERS)
            case _:
                if chance.random() < 0.3:
                    del found[at:]
    return bytes(found)


def posts(host: str, path: str, headers: Mapping[str, str], body: bytes) -> Ask:
    """A kept connection that posts mutations of a body to a path."""
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT_S)

    def ask(chance: random.Random) -> tuple[str, str]:
        sent, about = mutated(body, chance), {**headers, **key()}
        if LENGTH in about and chance.random() < 0.5:
            about[LENGTH] = chance.choice(("0", "-1", "1", "x", "99999999999999999999", str(len(sent) + 1)))
        if chance.random() < 0.05:
            about["content-type"] = chance.choice(("text/plain", "application/grpc", "", "application/json; x=y"))
        try:
            connection.request("POST", path, sent, about)
            answer = connection.getresponse()
            return f"HTTP {answer.status}", answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return "no answer", repr(error)

    return ask


def calls(target: Target) -> Ask:
    """A kept connection that calls a gRPC method with mutations of a message."""
    client = GrpcClient(endpoint_of(target.route, target.chosen))

    def ask(chance: random.Random) -> tuple[str, str]:
        try:
            answer = client.send(Payload(mutated(target.payloads[0].body, chance), 1))
            return "OK", answer.body.decode("latin-1") if len(answer.body) < 1000 else ""
        except CallError as error:
            status, _, text = str(error).partition(": ")
            return status, text

    return ask


def raw(host: str, chance: random.Random) -> tuple[str, str]:
    """A connection for each case: bytes that are not quite HTTP/1.1 or HTTP/2."""
    if chance.random() < 0.5:
        sent = mutated(b"POST /classify HTTP/1.1\r\nhost: edge\r\ncontent-length: 3\r\n\r\nabc", chance)
    else:
        sent = PREFACE + frames.SettingsFrame().serialize()
        for _ in range(chance.randint(1, 5)):
            payload = chance.randbytes(chance.randrange(60))
            kind_and_flags = bytes([chance.randrange(12), chance.randrange(256)])
            sent += len(payload).to_bytes(3) + kind_and_flags + chance.randrange(8).to_bytes(4) + payload
    text = b""
    with contextlib.suppress(OSError), contextlib.closing(connect(host)) as connection, gevent.Timeout(0.5, False):
        connection.sendall(sent)
        while piece := connection.recv(65_536):
            text += piece
    status = re.match(rb"HTTP/1\.1 (\d+)", text)
    return f"HTTP {status[1].decode()}" if status else "answered" if text else "closed", text.decode("latin-1")


def askers(routes: Mapping[str, Target]) -> dict[str, Callable[[], Ask]]:
    """By name, what makes a connection that sends cases."""
    found: dict[str, Callable[[], Ask]] = {}
    host = edge_of(routes)
    for name, target in routes.items():
        if target.route.format.protocol == "gRPC":
            found[name] = partial(calls, target)
        else:
            to, payload = endpoint_of(target.route, target.chosen), target.payloads[0]
            found[name] = partial(posts, host, to.path, {**to.headers, **payload.headers}, payload.body)
    if "torchserve-http" in routes:
        jpeg = routes["torchserve-http"].payloads[0].body
        form = {"content-type": "multipart/form-data; boundary=b"}
        found["jpeg-http, a form"] = partial(posts, host, "/classify", form, MULTIPART + jpeg + b"\r\n--b--\r\n")
        found["jpeg-http, a JPEG"] = partial(posts, host, "/classify", {"content-type": "image/jpeg"}, jpeg)
    found[RAW] = lambda: partial(raw, host)
    return found


def rows(routes: Mapping[str, Target], *, cases: int, seed: int, only: str) -> Iterator[dict[str, Any]]:
    """One row per way in whose name holds `only`; `cases` are those of all together, or some more.

    `statuses` and how often. `undeclared`: up to ten (seed, status, text) of those that no page declares, or that say
    something of the inside. `restarted`: containers and model processes that ended meanwhile. `mib`: memory of the
    container that grew most, before and after.
    """
    every = {name: make for name, make in askers(routes).items() if only in name}
    for name, make in every.items():
        before, alive = docker.memory_mib(), _processes()
        statuses, wrong = _asked(name, make, math.ceil(cases / len(every)), seed)
        after = docker.memory_mib()
        most = max(after, key=lambda service: after[service] - before.get(service, 0))
        yield {
            "way": name,
            "cases": statuses.total(),
            "statuses": dict(statuses.most_common()),
            "undeclared": sorted(wrong),
            "restarted": sorted(alive - _processes()),
            "mib": [most, round(before.get(most, 0), 1), round(after[most], 1)],
        }


def _asked(
    name: str, make: Callable[[], Ask], cases: int, seed: int
) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """Every case of one way in: the statuses, and what is wrong, as rows says."""
    statuses: Counter[str] = Counter()
    wrong: list[tuple[int, str, str]] = []
    declared = DECLARED | ({"closed", "answered"} if name == RAW else set())

    def work(worker: int) -> None:
        ask = make()
        for case in range(worker, cases, WORKERS):
            status, text = ask(random.Random(f"{seed} {name} {case}"))
            statuses[status] += 1
            if (status not in declared or (status != "OK" and INSIDE.search(text))) and len(wrong) < MOST_WRONG:
                wrong.append((case, status, text[:300]))

    gevent.joinall([gevent.spawn(work, worker) for worker in range(WORKERS)], raise_error=True)
    return statuses, wrong


def _processes() -> set[str]:
    """Every container of the stack with its start, and the model processes of Triton and TorchServe."""
    found = {f"{docker.service_of(one)} {one['State']['StartedAt']}" for one in docker.containers()}
    for service in ("triton", "torchserve"):
        for one in docker.containers(service):
            lines = docker.docker("top", one["Id"], "-eo", "pid,args").splitlines()
            found |= {f"{service} {line.split()[0]}" for line in lines if re.search("stub|model_service_worker", line)}
    return found
