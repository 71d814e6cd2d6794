"""`scripts/explain URL MODEL`: where the time of a call goes, in about ten seconds.

The model of any server of the Open Inference Protocol v2 is called over HTTP and gRPC, by one caller and then by
several. Each part of a call is what somebody measured: this client; Envoy of this stack, by `x-edge-timing`; Triton, by
its statistics. What nobody reports is called unknown. A cause is named only with the numbers that show it.
"""

import argparse
import functools
import http.client
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import grpc
from rich.console import Console
from rich.table import Table

from bench import endpoint
from bench.figures import callers, digits, share
from bench.measure.split import stages_of
from locustfiles import serving, tensors
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, CallError, Endpoint, Payload, key, tls
from locustfiles.clients.channels import channel
from locustfiles.routes import ROUTES
from locustfiles.serving import get_json
from locustfiles.settings import direct_address
from locustfiles.study_routes.endpoint import GRPC

MANY, SECONDS, WARM = 8, 2.0, 3
"""Callers at once, seconds of each look, and the calls of each caller that do not count."""
PARTS = ("encode", "connect", "send", "edge", "queue", "compute", "unknown", "receive", "decode")
"""In the order of a call. `edge`: what Envoy adds, with the way to it. `compute`: with copies to and from it."""
LARGE, MOST, SHORT, SLOWER, FULL = 0.15, 0.4, 0.1, 1.3, 0.9
"""Of a call's time: what a part takes that is worth naming, what is most of it, and what is not worth a word. How many
times more calls separate channels must carry. Of a core: what a client may use."""
IMAGE = 3 * 64 * 64
"""Numbers of the smallest tensor that may be a photo."""

OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
"""Of a channel: a connection of its own, and messages of any length."""

type Times = defaultdict[str, float]
"""Part -> ms."""


@dataclass(frozen=True, slots=True)
class Look:
    """Means per call of some callers over one protocol."""

    users: int
    calls: int
    per_second: float
    ms: Mapping[str, float]
    """Of each of PARTS that is known."""
    batch: float | None
    """Items that the server computed at once; None where it does not say."""
    cores: float
    """What this client used."""
    closed: float
    """The share of answers after which the server ended the connection."""

    @property
    def total_ms(self) -> float:
        return sum(self.ms.values())

    def part(self, *names: str) -> float:
        """Their share of a call."""
        return sum(self.ms.get(name, 0.0) for name in names) / self.total_ms


class Clock:
    """Adds what has passed since the last lap to a part's ms."""

    def __init__(self, times: Times) -> None:
        self._times, self._since = times, time.perf_counter()

    def lap(self, part: str) -> None:
        now = time.perf_counter()
        self._times[part] += (now - self._since) * 1e3
        self._since = now


class Http:
    """One connection of HTTP/1.1, kept alive where the server lets it."""

    def __init__(self, to: Endpoint) -> None:
        self._to, self.closed = to, 0
        self._connection: http.client.HTTPConnection | None = None

    def call(self, payload: Payload, clock: Clock) -> Answer:
        """Laps the parts that the client can tell apart; `wait` is the rest until the first byte. Raises CallError."""
        to = self._to
        try:
            if self._connection is None:
                self._connection = (
                    http.client.HTTPSConnection(to.host, timeout=to.deadline_s, context=tls.context())
                    if to.tls
                    else http.client.HTTPConnection(to.host, timeout=to.deadline_s)
                )
                self._connection.connect()
            clock.lap("connect")
            self._connection.request("POST", to.path, payload.body, {**to.headers, **payload.headers})
            clock.lap("send")
            response = self._connection.getresponse()
            clock.lap("wait")
            body = response.read()
            clock.lap("receive")
        except (OSError, http.client.HTTPException) as error:
            raise CallError(f"HTTP connection: {error!r}") from error
        if response.will_close:
            self._connection, self.closed = None, self.closed + 1
        if response.status != http.client.OK:
            raise CallError(f"HTTP {response.status}: {body[:200].decode(errors='replace')}")
        return Answer(body, {name.lower(): value for name, value in response.getheaders()})


class Grpc:
    """gRPC by grpcio, which tells no parts apart, on a channel of its own or on a shared one."""

    closed = 0

    def __init__(self, to: Endpoint, shared: grpc.Channel | None = None) -> None:
        self._to, self._channel = to, shared

    def call(self, payload: Payload, clock: Clock) -> Answer:
        """As Http.call."""
        try:
            if self._channel is None:
                self._channel = channel(self._to, OPTIONS)
                grpc.channel_ready_future(self._channel).result(self._to.deadline_s)
            clock.lap("connect")
            call: Any = self._channel.unary_unary(self._to.path)
            answer = call(payload.body, timeout=self._to.deadline_s, metadata=tuple(self._to.headers.items()))
        except grpc.FutureTimeoutError:
            raise CallError(f"UNAVAILABLE: nobody answers at {self._to.host}") from None
        except grpc.RpcError as error:
            raise CallError(f"{error.code().name}: {error.details()}") from error
        clock.lap("wait")
        return Answer(bytes(answer))


type Caller = Http | Grpc


@dataclass(frozen=True, slots=True)
class Subject:
    """The model that is asked, and where."""

    model: tensors.Model
    config: Mapping[str, Any]
    """Triton's; {} where the server has none to show."""
    http: str

    def request(self, protocol: str) -> Payload:
        """Of one item, encoded anew."""
        return tensors.encode(protocol, self.model, one_item(self.model), 0, 1)

    def statistics(self) -> Counter[str]:
        """Triton's sums for the model, ns and counts; empty where it has none to show."""
        try:
            (found,) = get_json(self.http, f"/v2/models/{quote(self.model.name)}/stats")["model_stats"]
            sums = found["inference_stats"]
            said = {name: int(sums[name]["ns"]) for name in sums if name.startswith(("queue", "compute", "success"))}
            counts = {name: int(found[name]) for name in ("inference_count", "execution_count")}
            return Counter(said | counts | {"calls": int(sums["success"]["count"])})
        except (CallError, ValueError, LookupError, TypeError):
            return Counter()


@functools.cache
def one_item(model: tensors.Model) -> list[dict[str, tensors.Array]]:
    """What every request of a process has."""
    return tensors.inputs(model)[:1]


def look(subject: Subject, protocol: str, make: Callable[[], Caller], users: int, seconds: float = SECONDS) -> Look:
    """So many callers in closed loops, each in a thread. Raises CallError."""
    gate = threading.Barrier(users + 1)

    def caller() -> tuple[Times, int, int]:
        """Sums of all calls, how many there were, and after how many of them the server ended the connection."""
        times: Times = defaultdict(float)
        calls, client = 0, make()
        try:
            for _ in range(WARM):
                client.call(subject.request(protocol), Clock(defaultdict(float)))
            gate.wait()
            before, end = client.closed, time.monotonic() + seconds
            while time.monotonic() < end:
                clock = Clock(times)
                payload = subject.request(protocol)
                clock.lap("encode")
                answer = client.call(payload, clock)
                tensors.check(protocol, subject.model, answer, 1)
                tensors.flat(protocol, answer)
                clock.lap("decode")
                for name, ms in stages_of(answer.headers).items():
                    times[name] += ms
                calls += 1
        except Exception:
            gate.abort()
            raise
        return times, calls, client.closed - before

    with ThreadPoolExecutor(users) as threads:
        callers = [threads.submit(caller) for _ in range(users)]
        try:
            before = subject.statistics()
            gate.wait()
        except threading.BrokenBarrierError:
            pass  # a caller failed
        except BaseException:  # Ctrl-C: nobody waits for this thread
            gate.abort()
            raise
        begun, cpu_s = time.monotonic(), time.process_time()
    lasted, used_s = time.monotonic() - begun, time.process_time() - cpu_s
    for error in (one.exception() for one in callers):
        if isinstance(error, CallError | WrongAnswer):
            raise CallError(f"{protocol}: {error}") from error
    shares = [one.result() for one in callers]
    after = subject.statistics()
    calls, closed = sum(made for _, made, _ in shares), sum(ended for _, _, ended in shares)
    after.subtract(before)
    ran = after["inference_count"] / after["execution_count"] if after["execution_count"] > 0 else None
    names = {name for times, _, _ in shares for name in times}
    means = {name: sum(times[name] for times, _, _ in shares) / calls for name in names}
    return Look(users, calls, calls / lasted, _parts(means, after), ran, used_s / lasted, closed / calls)


def _parts(means: Mapping[str, float], triton: Mapping[str, int]) -> dict[str, float]:
    """The means of a client's laps with the wait told apart, as far as edge and server say."""
    found = {name: means[name] for name in PARTS if name in means}
    left = means["wait"]
    if "edge.upstream" in means:
        found["edge"] = max(0.0, left - means["edge.upstream"])
        left -= found["edge"]
    if (calls := triton.get("calls", 0)) > 0:
        for name in ("queue", "compute"):
            ns = sum(ns for stage, ns in triton.items() if stage.startswith(name))
            found[name] = min(left, ns / calls / 1e6)
            left -= found[name]
    return {name: found[name] for name in PARTS if name in found} | {"unknown": left}


def causes(subject: Subject, one: Look, many: Look, channels: tuple[float, float] | None) -> list[str]:
    """What makes HTTP calls slower than they must be, each with the numbers that show it and what to try. `channels`:
    gRPC calls per second of MANY callers, on one channel and on one each."""
    model, found = subject.model, []
    shapes = [item.shape for item in model.inputs if "F" in item.datatype]
    photos = [shape for shape in shapes if len(shape) >= 3 and 3 in shape and abs(math.prod(shape)) >= IMAGE]
    sending = one.part("encode", "send")
    if one.closed > 0.5:
        found.append(
            f"The server ends the connection after each answer: connecting takes {digits(one.ms['connect'])} ms of it."
            " Let it keep connections (HTTP/1.1, keep-alive)."
        )
    if not model.binary and one.part("encode", "send", "receive", "decode") > LARGE:
        part = share(one.part("encode", "send", "receive", "decode"))
        found.append(f"Numbers go as JSON, and {part} of a call is making, sending and reading it. Use gRPC, or a"
                     " server with the extension binary_tensor_data.")  # fmt: skip
    elif photos and sending > LARGE:
        size = len(subject.request("HTTP").body)
        found.append(
            f"A tensor of {size:,} bytes is sent where a JPEG may do: encoding and sending take {share(sending)} of a"
            " call. Let the server decode the photo."
        )
    batcher = subject.config.get("dynamic_batching") or {}
    delay_ms = int(batcher.get("max_queue_delay_microseconds") or 0) / 1e3
    queue_ms = one.ms.get("queue", 0.0)
    if delay_ms and queue_ms > delay_ms / 2 and one.part("queue") > SHORT:
        found.append(
            f"One caller alone waits {digits(queue_ms)} ms in the queue: the batcher's delay is {digits(delay_ms)} ms"
            " (max_queue_delay_microseconds). Lower it."
        )
    instances = sum(int(group.get("count") or 1) for group in subject.config.get("instance_group") or ())
    if many.part("queue") > MOST and instances == 1 and (many.batch or 2) < SLOWER:
        found.append(
            f"With {callers(many.users)}, {share(many.part('queue'))} of a call is waiting for the one instance,"
            f" which computes {digits(many.batch)} items at once. Try dynamic batching, or more instances."
        )
    if channels and channels[1] > SLOWER * channels[0]:
        found.append(
            f"One gRPC channel carries {digits(channels[0])} calls per second, {callers(MANY)} with one each"
            f" {digits(channels[1])}. Use several channels."
        )
    if many.cores > FULL:
        found.append(
            f"With {callers(many.users)} this client used {digits(many.cores)} cores: what it measured then is its own"
            " limit. Ask from several processes (scripts/bench endpoint does)."
        )
    return found


def show(console: Console, name: str, found: Look) -> None:
    """A bar for each part."""
    table = Table(title=f"{name}, {callers(found.users)}: {digits(found.total_ms)} ms, {digits(found.per_second)} calls"
                        " per second", title_justify="left", box=None, show_header=False)  # fmt: skip
    for part, ms in found.ms.items():
        table.add_row(part, f"{digits(ms)} ms", "█" * round(40 * ms / found.total_ms))
    console.print(table)


def answer(found: Look, name: str) -> str:
    """The largest part, in one sentence."""
    part = max(found.ms, key=found.ms.__getitem__)
    said = {"unknown": "is spent where nobody reports it: network, server or both", "queue": "is waiting for the model",
            "compute": "is the model's own work", "edge": "is Envoy and the way to it"}  # fmt: skip
    what = said.get(part, f"is the client's: {part}")
    return f"Of {digits(found.total_ms)} ms over {name}, {share(found.part(part))} {what}."


def run(options: argparse.Namespace) -> int:
    """Look, show, and say what to try."""
    rows = endpoint.stand_in(options)
    http_at, served = direct_address("triton:8000"), serving.now()
    try:
        config = get_json(http_at, f"/v2/models/{quote(options.model)}/config")
    except CallError:
        config = {}
    subject = Subject(tensors.described(http_at, options.model, served), config, http_at)
    path = ROUTES["onnx-http"].path.format(model=quote(options.model))
    by_http = partial(Http, Endpoint(http_at, path, key()))
    console, looks = Console(highlight=False), {}
    for users in (1, MANY):
        looks[users] = look(subject, "HTTP", by_http, users)
        show(console, "HTTP", looks[users])
    channels = None
    if GRPC in rows:
        to = Endpoint(direct_address("triton:8001"), ROUTES["onnx-grpc"].path, key())
        by_grpc, by_one = partial(Grpc, to), partial(Grpc, to, channel(to, OPTIONS))
        show(console, "gRPC", look(subject, "gRPC", by_grpc, 1))
        alone, apart = (look(subject, "gRPC", make, MANY, SECONDS / 2) for make in (by_one, by_grpc))
        channels = alone.per_second, apart.per_second
        show(console, "gRPC", apart)
    console.print(answer(looks[1], "HTTP"))
    for cause in causes(subject, looks[1], looks[MANY], channels) or ["No cause that could be taken away was seen."]:
        console.print(f"- {cause}")
    return 0
