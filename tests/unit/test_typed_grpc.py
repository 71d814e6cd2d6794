"""The typed gateway as its clients see it: a real channel, before servers that stand for TorchServe and Triton.

Its health is the truth about its upstreams, at no cost under load; and it follows what is served.
"""

import asyncio
import contextlib
import itertools
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2 as pb
from fiveway.vision.v1 import vision_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from gateways.core import following, traces
from gateways.core import serving as core_serving
from gateways.core.errors import INTERNAL_MESSAGE
from gateways.core.health import ElsewhereError
from gateways.core.timing import Stages
from gateways.rpc import server
from gateways.typed_grpc import health, service, upstreams
from gateways.typed_grpc.server import running
from gateways.upstreams.torchserve import AT_ONCE, TorchServe
from gateways.upstreams.triton import FAILED, Triton
from scripts.host.machine import listens
from tests.otlp import CALLER, Span, receiver
from tests.unit.counts import counts, value
from tests.unit.http_server import http_server
from tests.unit.upstream_servers import (
    LABELS,
    MODEL,
    WAIT_S,
    Behaviour,
    jpeg,
    manifest,
    serving,
    torchserve,
    triton,
    until,
    write,
)

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
BOTH = pytest.mark.parametrize("name", ["torchserve", "triton"])
OTHER = "other"
GOOD = jpeg()
REQUEST = pb.PredictRequest(images=[GOOD])
PREDICT = f"/{service.SERVICE}/Predict"


def to(name: str) -> tuple[tuple[str, str]]:
    """The metadata that chooses an upstream."""
    return (("x-backend", name),)


def artifacts(folder: Path) -> Path:
    """Two models in `folder`, of which MODEL is served."""
    for model in (MODEL, OTHER):
        write(folder, manifest(model=model))
    serving().write(folder)
    return folder


@dataclass
class Gateway:
    """The client's side of a running gateway, and the two servers behind."""

    stub: Any
    health: Any
    channel: grpc.aio.Channel
    torchserve: Behaviour
    triton: Behaviour
    artifacts: Path

    def behind(self, name: str) -> Behaviour:
        return self.torchserve if name == "torchserve" else self.triton

    async def status(self, name: str = "") -> int:
        return (await self.health.Check(health_pb2.HealthCheckRequest(service=name))).status

    async def becomes(self, status: int, *names: str) -> None:
        for name in names:
            end = time.monotonic() + WAIT_S
            while await self.status(name) != status:
                assert time.monotonic() < end, f"{name or 'the server'} did not become {status}"
                await asyncio.sleep(0.02)


@asynccontextmanager
async def gateway_before(folder: Path, torchserve_: Behaviour, triton_: Behaviour) -> AsyncIterator[int]:
    """A gateway before such servers; yields its port."""
    async with (
        torchserve(torchserve_) as url,
        triton(triton_) as address,
        running(artifacts(folder), url, address, "127.0.0.1:0") as port,
    ):
        yield port


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    """Its upstreams both answer; what they saw of its start is forgotten."""
    monkeypatch.setattr(following, "POLL_S", 0.02)
    monkeypatch.setattr(following, "RETRY_S", 0.02)
    monkeypatch.setattr(core_serving, "FOLLOWED", tmp_path / "followed")
    monkeypatch.setattr(upstreams, "RETRY_EVERY_S", 0.05)
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    behind = Behaviour(), Behaviour()
    async with (
        gateway_before(tmp_path, *behind) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
    ):
        stub, healthy = vision_pb2_grpc.VisionServiceStub(channel), health_pb2_grpc.HealthStub(channel)
        gateway = Gateway(stub, healthy, channel, *behind, tmp_path)
        await gateway.becomes(SERVING, "", "triton")
        for one in behind:
            one.calls = 0
        yield gateway


async def fails(call: Any, code: grpc.StatusCode, keyword: str = "") -> grpc.aio.AioRpcError:
    """It ends with that status, and says so."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert (caught.value.code(), keyword in str(caught.value.details())) == (code, True), caught.value
    return caught.value


# Answers


@BOTH
async def test_an_answer_says_whose_it_is_and_where_the_time_went(gateway: Gateway, name: str) -> None:
    """Without metadata it is TorchServe's. Values and order over every route: tests/golden."""
    call = gateway.stub.Predict(REQUEST, metadata=to(name) if name == "triton" else ())
    answer = await call
    assert (answer.model, answer.weights) == (MODEL, pb.WEIGHTS_RANDOM)
    assert answer.predictions[0].classes[0].label == LABELS[5]
    assert gateway.behind(name).calls == 1
    timing = dict(await call.trailing_metadata())["server-timing"]
    assert re.findall(r"(\w+);dur=\d", timing) == ["preprocess"] * (name == "triton") + ["backend", "total"]


@BOTH
async def test_only_what_was_asked_for_is_answered(gateway: Gateway, name: str) -> None:
    """`outputs` and `top_k` cut the answer."""
    asked = pb.PredictRequest(images=[GOOD], outputs=[pb.OUTPUT_CLASSES], top_k=2)
    (prediction,) = (await gateway.stub.Predict(asked, metadata=to(name))).predictions
    assert (prediction.HasField("embedding"), len(prediction.classes)) == (False, 2)
    asked = pb.PredictRequest(images=[GOOD], outputs=[pb.OUTPUT_EMBEDDING])
    (prediction,) = (await gateway.stub.Predict(asked, metadata=to(name))).predictions
    assert (prediction.HasField("embedding"), len(prediction.classes)) == (True, 0)


# Traces


@BOTH
async def test_a_trace_goes_on(gateway: Gateway, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it came while traces are off; else with this gateway's span, which says where the time went. A message of a
    stream is a span of its own."""
    asked = (*to(name), ("traceparent", CALLER.traceparent))
    heard = gateway.behind(name).traceparents

    async def ask() -> None:
        heard.clear()
        await gateway.stub.Predict(REQUEST, metadata=asked)
        assert [one async for one in gateway.stub.PredictStream(sent([message(GOOD)] * 2), metadata=asked)]

    await ask()
    assert heard == [CALLER.traceparent] * 3
    seen: list[Span] = []
    monkeypatch.setattr(traces, "_tracer", None)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with http_server(receiver(seen.append)) as port:
        monkeypatch.setenv("OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        traces.export("typed-grpc")
        await ask()
        await until(lambda: len(seen) == 3)
    assert {(one.service, one.trace, one.parent) for one in seen} == {("typed-grpc", CALLER.trace, CALLER.id)}
    assert sorted(one.name.rpartition("/")[2] for one in seen) == ["Predict", "PredictStream", "PredictStream"]
    assert sorted(heard) == sorted(one.traceparent for one in seen)
    assert all("fiveway.backend_ms" in one.attributes for one in seen)


def test_opentelemetry_is_not_imported_without_an_endpoint() -> None:
    code = "import sys, gateways.typed_grpc.__main__ as main; main.traces.export(''); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gateways.core.traces" in done.stdout
    assert "opentelemetry" not in done.stdout


# Wrong requests

WRONG: dict[str, tuple[pb.PredictRequest, str]] = {
    "empty image": (pb.PredictRequest(images=[GOOD, b""]), "images[1] is empty"),
    "unspecified output": (pb.PredictRequest(images=[GOOD], outputs=[0]), "OUTPUT_EMBEDDING"),  # type: ignore[list-item]
    "unknown output": (pb.PredictRequest(images=[GOOD], outputs=[77]), "OUTPUT_EMBEDDING"),  # type: ignore[list-item]
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_requests_are_refused_before_an_upstream(gateway: Gateway, case: str) -> None:
    """No upstream is called, and the refusal is timed. What else is wrong: tests/stack/bad_input.py."""
    request, keyword = WRONG[case]
    error = await fails(gateway.stub.Predict(request), INVALID, keyword)
    assert "server-timing" in dict(error.trailing_metadata())
    assert gateway.torchserve.calls + gateway.triton.calls == 0


async def test_an_unknown_upstream_is_told_the_choices(gateway: Gateway) -> None:
    """Both kinds of call."""
    unary = gateway.stub.Predict(REQUEST, metadata=to("onnx"))
    stream = gateway.stub.PredictStream(iter([pb.PredictStreamRequest()]), metadata=to("onnx")).read()
    for call in (unary, stream):
        await fails(call, INVALID, "send torchserve or triton")


async def test_torchserve_refuses_more_classes_than_it_answers(gateway: Gateway) -> None:
    """top_k 6 is refused for TorchServe and answered by Triton."""
    request = pb.PredictRequest(images=[GOOD], top_k=6)
    await fails(gateway.stub.Predict(request), INVALID, "at most 5")
    answer = await gateway.stub.Predict(request, metadata=to("triton"))
    assert len(answer.predictions[0].classes) == 6


@pytest.mark.parametrize("path", [f"{service.SERVICE}/Nothing", "some.Other/Predict"])
async def test_a_method_that_there_is_not(gateway: Gateway, path: str) -> None:
    """UNIMPLEMENTED, with the one that there is; the connection lives on."""
    call: Any = gateway.channel.unary_unary(f"/{path}")
    await fails(call(b""), grpc.StatusCode.UNIMPLEMENTED, PREDICT)
    assert await gateway.stub.Predict(REQUEST)


# Upstreams


async def test_torchserve_gets_a_call_per_photo_and_triton_one_per_batch(gateway: Gateway) -> None:
    """The bytes untouched, or photos of any size as one tensor; 32 answers in order."""
    shades = range(0, 256, 8)
    photos = [jpeg(shade, size=(40 + shade, 60)) for shade in shades]
    for name, seen in (("torchserve", shades), ("triton", [shade / 127.5 - 1 for shade in shades])):
        answer = await gateway.stub.Predict(pb.PredictRequest(images=photos), metadata=to(name))
        found = [prediction.embedding.values[0] for prediction in answer.predictions]
        assert found == pytest.approx(seen, abs=3 if name == "torchserve" else 0.02)
    assert set(gateway.torchserve.bodies) >= set(photos)
    assert (32, 3, 32, 32) in gateway.triton.shapes


async def test_photos_are_in_flight_together_and_bounded(gateway: Gateway) -> None:
    """TorchServe can only batch what it holds at the same time; what is more waits here."""
    gateway.torchserve.gate.clear()
    many = pb.PredictRequest(images=[GOOD] * 32)
    calls = [asyncio.ensure_future(gateway.stub.Predict(many)) for _ in range(4)]
    await until(lambda: gateway.torchserve.at_work >= AT_ONCE)
    gateway.torchserve.gate.set()
    assert [len(answer.predictions) for answer in await asyncio.gather(*calls)] == [32] * 4
    assert gateway.torchserve.most_at_work == AT_ONCE


async def test_calls_that_end_leave_no_more_than_torchserve_has_taken(gateway: Gateway) -> None:
    """It would compute that for no client. Waiting requests are never sent after a cancelled call or a bad photo."""
    gateway.torchserve.refused = jpeg(1)
    gateway.torchserve.gate.clear()
    bad, many = ([*[GOOD] * 31, last] for last in (gateway.torchserve.refused, GOOD))
    await fails(gateway.stub.Predict(pb.PredictRequest(images=bad)), INVALID, "images[31]")
    calls = [gateway.stub.Predict(pb.PredictRequest(images=many)) for _ in range(4)]
    await until(lambda: gateway.torchserve.at_work == AT_ONCE)
    for call in calls:
        call.cancel()
    # The gateway too knows now that they have ended.
    await until(lambda: not any(TorchServe._one.__qualname__ in repr(task) for task in asyncio.all_tasks()))
    gateway.torchserve.gate.set()
    assert await gateway.stub.Predict(REQUEST)
    await until(lambda: gateway.torchserve.at_work == 0)
    assert gateway.torchserve.bodies.count(GOOD) <= AT_ONCE + 1


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (400, INVALID, "images[0] is cut off: secret"),
        (404, UNAVAILABLE, "has not loaded 'tiny'"),
        (413, EXHAUSTED, "send a smaller JPEG"),
        *((status, UNAVAILABLE, "again") for status in (500, 503, 507)),
        (grpc.StatusCode.NOT_FOUND, UNAVAILABLE, "has not loaded 'tiny'"),
        *((code, UNAVAILABLE, "again") for code in grpc.StatusCode if code in FAILED - {grpc.StatusCode.CANCELLED}),
    ],
)
async def test_refusals(gateway: Gateway, answer: Any, code: grpc.StatusCode, says: str) -> None:
    """Each status of a server becomes ours; its own words reach the client only about a bad photo."""
    name = "torchserve" if isinstance(answer, int) else "triton"
    behaviour = gateway.behind(name)
    behaviour.message = "image is cut off: secret"
    if name == "torchserve":
        behaviour.status = answer
    else:
        behaviour.code = answer
    error = await fails(gateway.stub.Predict(REQUEST, metadata=to(name)), code, says)
    assert ("secret" in str(error.details())) is (code is INVALID)


@BOTH
async def test_nobody_listening(tmp_path: Path, name: str) -> None:
    """A server that is down is UNAVAILABLE, in words."""
    async with (
        running(artifacts(tmp_path), "http://127.0.0.1:9", "127.0.0.1:9", "127.0.0.1:0") as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        call: Any = channel.unary_unary(PREDICT)
        await fails(call(REQUEST.SerializeToString(), metadata=to(name), timeout=20), UNAVAILABLE, "try again")


@BOTH
async def test_a_bug_is_internal_with_fixed_words(gateway: Gateway, name: str) -> None:
    """TorchServe's answer is not the handler's JSON, Triton refuses our tensor: nothing of it reaches the client."""
    behaviour = gateway.behind(name)
    behaviour.garbage, behaviour.code, behaviour.message = True, INVALID, "malformed"
    call = gateway.stub.Predict(REQUEST, metadata=to(name))
    await fails(call, grpc.StatusCode.INTERNAL, INTERNAL_MESSAGE)


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [("MAX_AT_WORK", 1, "try again"), ("MAX_HELD", REQUEST.ByteSize(), "too many large requests")],
)
async def test_too_much_at_once_is_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, says: str
) -> None:
    """Beyond a bound of batches, or of their bytes, at once and with words; when the crowd has gone it is answered."""
    monkeypatch.setattr(service, limit, value)
    gateway.torchserve.gate.clear()
    first = asyncio.ensure_future(gateway.stub.Predict(REQUEST))
    await until(lambda: gateway.torchserve.at_work >= 1)
    error = await fails(gateway.stub.Predict(REQUEST), EXHAUSTED, says)
    assert dict(error.trailing_metadata())["grpc-retry-pushback-ms"] == "1000"
    gateway.torchserve.gate.set()
    await first
    assert await gateway.stub.Predict(REQUEST)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_both_reflections_are_there(gateway: Gateway, version: str) -> None:
    """The library has v1alpha only; a client of v1 gets the same answer, with both in it."""
    method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    asked = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    call: Any = gateway.channel.stream_stream(method)(iter([asked]))
    answer = reflection_pb2.ServerReflectionResponse.FromString(await call.read())
    names = {one.name for one in answer.list_services_response.service}
    assert {"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection", service.SERVICE} <= names


# Metrics


async def test_each_request_is_counted_once_by_its_outcome(gateway: Gateway) -> None:
    """A message of a stream is one, and bytes that are no message are one too."""
    before = counts()
    await gateway.stub.Predict(pb.PredictRequest(images=[GOOD] * 3), metadata=to("triton"))
    stream = gateway.stub.PredictStream(iter([message(GOOD), message(b"")]))
    assert len([answer async for answer in stream]) == 2
    raw: Any = gateway.channel.unary_unary(PREDICT)
    await fails(raw(b"\xff"), INVALID)
    gateway.torchserve.status = 503
    await fails(gateway.stub.Predict(REQUEST), UNAVAILABLE)
    gateway.torchserve.gate.clear()
    call = gateway.stub.Predict(REQUEST)
    await until(lambda: value("fiveway_pending_images") == 1)
    call.cancel()
    await until(lambda: value("fiveway_pending_images") == 0)
    wanted = {"OK": 2, "INVALID": 2, "UNAVAILABLE": 1, "CANCELLED": 1, "batches": 4, "images": 6}
    assert counts() - before == wanted


async def test_what_answers_behind_is_said(gateway: Gateway) -> None:
    """1 while it serves, 0 when it does not."""
    assert [value("fiveway_upstream_serving", upstream=name) for name in ("torchserve", "triton")] == [1, 1]
    gateway.torchserve.status = 503
    await fails(gateway.stub.Predict(REQUEST), UNAVAILABLE)
    await until(lambda: value("fiveway_upstream_serving", upstream="torchserve") == 0)
    assert value("fiveway_upstream_serving", upstream="triton") == 1


# Streams


def message(*images: bytes) -> pb.PredictStreamRequest:
    return pb.PredictStreamRequest(request=pb.PredictRequest(images=images))


async def sent(messages: Iterable[pb.PredictStreamRequest]) -> AsyncIterator[pb.PredictStreamRequest]:
    for one in messages:
        yield one


async def test_a_stream_is_answered_in_order_and_pipelining_is_bounded(gateway: Gateway) -> None:
    """A client that sends 50 messages at once has 8 at work; all are answered when the upstream goes on; then OK."""
    shades = [(i * 37) % 256 for i in range(50)]
    gateway.torchserve.gate.clear()
    call = gateway.stub.PredictStream(sent(message(jpeg(shade)) for shade in shades))
    await until(lambda: gateway.torchserve.at_work >= service.PIPELINE)
    gateway.torchserve.gate.set()
    seen = [answer.response.predictions[0].embedding.values[0] async for answer in call]
    assert seen == pytest.approx(shades, abs=3)
    assert gateway.torchserve.most_at_work == service.PIPELINE
    assert await call.code() is grpc.StatusCode.OK
    assert "server-timing" in dict(await call.trailing_metadata())


@pytest.mark.parametrize("end", ["cancel", "deadline"])
async def test_the_end_of_a_stream_frees_the_upstream(gateway: Gateway, end: str) -> None:
    """What was at work for it is given up, where the upstream hears of that; a deadline is for the whole stream."""
    gateway.triton.gate.clear()
    call = gateway.stub.PredictStream(
        sent([message(GOOD)] * 5), timeout=0.3 if end == "deadline" else None, metadata=to("triton")
    )
    if end == "cancel":
        await until(lambda: gateway.triton.at_work >= 5)
        call.cancel()
        await until(lambda: gateway.triton.cancelled == 5)
    else:
        await fails(call.read(), grpc.StatusCode.DEADLINE_EXCEEDED)
    await until(lambda: gateway.triton.at_work == 0)


# Health


async def test_a_failing_default_turns_the_server_unhealthy_and_back(gateway: Gateway) -> None:
    """One failed call of a client is enough to ask again at once; Triton's health is its own."""
    gateway.torchserve.status = 507
    await fails(gateway.stub.Predict(REQUEST), UNAVAILABLE)
    await gateway.becomes(NOT_SERVING, "", service.SERVICE, "torchserve")
    assert await gateway.status("triton") == SERVING
    gateway.torchserve.status = 200
    await gateway.becomes(SERVING, "", service.SERVICE, "torchserve")
    gateway.triton.code = grpc.StatusCode.INTERNAL
    await fails(gateway.stub.Predict(REQUEST, metadata=to("triton")), UNAVAILABLE)
    await gateway.becomes(NOT_SERVING, "triton")
    assert await gateway.status() == SERVING


async def test_a_wrong_request_says_nothing_about_health(gateway: Gateway) -> None:
    """A client's bad photos cause no probes."""
    for _ in range(5):
        await fails(gateway.stub.Predict(pb.PredictRequest(images=[b"hello"])), INVALID)
    assert await gateway.stub.Predict(REQUEST)
    assert gateway.torchserve.calls == 1


@pytest.mark.parametrize("others", [True, False], ids=["at the server itself", "through this gateway"])
async def test_no_probe_while_clients_are_answered(monkeypatch: pytest.MonkeyPatch, others: bool) -> None:
    """They are the proof, and no measurement sees a probe; at rest there is one again."""
    monkeypatch.setattr(upstreams, "PROBE_EVERY_S", 0.001)
    looks = 0
    probes: list[int] = []

    class Busy:
        """An upstream with a client's answer between two looks, for 100 looks."""

        name = "busy"

        async def answered(self) -> int:
            nonlocal looks
            looks += 1
            watched.successes += looks < 100 and not others
            return min(looks, 100) if others else 0

        async def predict(self, *_: object, **__: object) -> list[Any]:
            probes.append(looks)
            return []

    async def report(*_: object) -> None:
        """Nobody asks."""

    watched = upstreams.Watched(Busy())  # type: ignore[arg-type]
    watching = asyncio.create_task(watched.watch(report))
    await until(lambda: looks > 110)
    watching.cancel()
    assert len(probes) > 2
    assert min(probes[1:]) >= 100  # nothing can have moved before the first look


async def test_nothing_is_serving_before_a_model_has_answered(tmp_path: Path) -> None:
    """An open port is not health; the answer of a model is. Without one the upstream is to blame; a gateway that does
    not answer, itself."""
    slow = Behaviour()
    slow.gate.clear()
    async with gateway_before(tmp_path, slow, Behaviour()) as port, asyncio.timeout(30):
        with pytest.raises(ElsewhereError):
            await asyncio.to_thread(health.probe, port)
        slow.gate.set()
        for _ in itertools.count():
            with contextlib.suppress(ElsewhereError):
                await asyncio.to_thread(health.probe, port)
                break
    with pytest.raises(grpc.RpcError):
        await asyncio.to_thread(health.probe, port)


async def test_stopping_finishes_what_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call at work is answered, and then the gateway is gone: it does not wait until its time is up."""
    monkeypatch.setattr(server, "STOP_GRACE_S", 1000)
    behaviour = Behaviour()
    running = gateway_before(tmp_path, behaviour, Behaviour())
    port = await running.__aenter__()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary(PREDICT)
        behaviour.gate.clear()
        four = pb.PredictRequest(images=[GOOD] * 4)
        at_work = asyncio.ensure_future(call(four.SerializeToString()))
        await until(lambda: behaviour.at_work >= len(four.images))  # one of them may be the gateway's own probe
        stopping = asyncio.ensure_future(running.__aexit__(None, None, None))
        await until(lambda: not listens("127.0.0.1", port))
        behaviour.gate.set()
        assert pb.PredictResponse.FromString(await at_work).predictions
        await stopping


# Following what is served


async def serve(gateway: Gateway, model: str) -> None:
    """Have it served, and wait until the gateway says that it has changed over."""
    serving(model).write(gateway.artifacts)
    await until(lambda: (gateway.artifacts / "followed").read_text() == model)


async def test_a_stream_changes_over_between_two_messages(gateway: Gateway) -> None:
    """A stream may outlive many models: each message is answered by the one that is served when it comes, at once.

    That a call at work ends with its model: tests/unit/test_core_serving.py.
    """
    gateway.torchserve.models = gateway.triton.models = (MODEL, OTHER)
    stream = gateway.stub.PredictStream()
    for model in (MODEL, OTHER):
        await serve(gateway, model)
        await stream.write(pb.PredictStreamRequest(request=REQUEST))
        assert (await stream.read()).response.model == model
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF


async def test_an_upstream_that_dies_right_after_a_change_is_reported(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first answer let the new model in; the next one, which is the first that is watched, fails."""
    gateway.torchserve.models = gateway.triton.models = (MODEL, OTHER)
    answered_once = upstreams.Watched.answered_once

    async def then_dies(watched: upstreams.Watched) -> None:
        await answered_once(watched)
        if watched.upstream.name == "torchserve":
            gateway.torchserve.status = 507

    monkeypatch.setattr(upstreams.Watched, "answered_once", then_dies)
    await serve(gateway, OTHER)
    await gateway.becomes(NOT_SERVING, "", "torchserve")


async def test_a_new_model_that_does_not_answer_leaves_the_old_one(gateway: Gateway) -> None:
    """No client sees it before a photo was answered through both upstreams."""
    gateway.torchserve.models = (MODEL, OTHER)  # Triton does not have it yet
    swap = asyncio.create_task(serve(gateway, OTHER))
    await until(lambda: gateway.triton.calls > 1)
    assert (await gateway.stub.Predict(REQUEST)).model == MODEL
    gateway.triton.models = (MODEL, OTHER)
    await swap
    assert (await gateway.stub.Predict(REQUEST)).model == OTHER


async def test_replicas_of_triton_share_the_calls() -> None:
    """Each address that the name has gets some of them."""
    replicas = Behaviour(), Behaviour()
    with ThreadPoolExecutor(1) as threads:
        async with triton(replicas[0]) as one, triton(replicas[1]) as two:
            upstream = Triton(f"ipv4:{one},{two}", manifest(), threads=threads)
            end = time.monotonic() + WAIT_S
            while not all(replica.calls for replica in replicas):
                assert time.monotonic() < end, [replica.calls for replica in replicas]
                await upstream.predict([jpeg()], stages=Stages(), timeout=WAIT_S)
            await upstream.close()
