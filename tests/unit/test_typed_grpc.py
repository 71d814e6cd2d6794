"""The typed gateway as its clients see it: a real channel, before servers that stand for TorchServe and Triton."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2 as pb

from gateways.typed_grpc import service
from gateways.typed_grpc.server import MAX_MESSAGE_BYTES
from tests.unit.typed_gateway import BOTH, GOOD, Gateway, failure, started
from tests.unit.upstream_servers import DIM, LABELS, MODEL, jpeg, until

TRITON = (("x-backend", "triton"),)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with started() as gateway:
        yield gateway


# Answers


@BOTH
async def test_a_batch_is_answered_in_order(gateway: Gateway, backend: str) -> None:
    """Dark, grey, white: three predictions, each with five classes, labels and an embedding."""
    answer = await gateway.stub.Predict(
        pb.PredictRequest(images=[jpeg(0), jpeg(128), jpeg(255)]), metadata=(("x-backend", backend),)
    )
    assert (answer.model, answer.weights) == (MODEL, pb.WEIGHTS_RANDOM)
    assert [p.classes[0].index for p in answer.predictions] == [0, 5, 9]
    for prediction in answer.predictions:
        assert len(prediction.embedding.values) == DIM
        assert [c.label for c in prediction.classes] == [LABELS[c.index] for c in prediction.classes]
        assert len(prediction.classes) == 5


async def test_without_metadata_torchserve_answers(gateway: Gateway) -> None:
    """The default backend gets the call, the other one does not."""
    await gateway.stub.Predict(pb.PredictRequest(images=[jpeg()]))
    assert (gateway.torchserve.calls, gateway.triton.calls) == (1, 0)


@BOTH
async def test_only_what_was_asked_for_is_answered(gateway: Gateway, backend: str) -> None:
    """`outputs` and `top_k` cut the answer."""
    metadata = (("x-backend", backend),)
    asked = pb.PredictRequest(images=[jpeg()], outputs=[pb.OUTPUT_CLASSES], top_k=2)
    (prediction,) = (await gateway.stub.Predict(asked, metadata=metadata)).predictions
    assert not prediction.HasField("embedding")
    assert len(prediction.classes) == 2
    asked = pb.PredictRequest(images=[jpeg()], outputs=[pb.OUTPUT_EMBEDDING])
    (prediction,) = (await gateway.stub.Predict(asked, metadata=metadata)).predictions
    assert prediction.HasField("embedding")
    assert not prediction.classes


@pytest.mark.parametrize(
    ("backend", "names"), [("torchserve", ["backend", "total"]), ("triton", ["preprocess", "backend", "total"])]
)
async def test_server_timing_is_trailing_metadata(gateway: Gateway, backend: str, names: list[str]) -> None:
    """Each stage has a name and milliseconds."""
    call = gateway.stub.Predict(pb.PredictRequest(images=[jpeg()]), metadata=(("x-backend", backend),))
    await call
    parts = [part.split(";dur=") for part in dict(await call.trailing_metadata())["server-timing"].split(", ")]
    assert [name for name, _ in parts] == names
    assert all(float(ms) >= 0 for _, ms in parts)


# Wrong requests

WRONG: dict[str, tuple[pb.PredictRequest, str]] = {
    "no images": (pb.PredictRequest(), "send 1 to 32"),
    "33 images": (pb.PredictRequest(images=[GOOD] * 33), "send 1 to 32"),
    "empty image": (pb.PredictRequest(images=[GOOD, b""]), "images[1] is empty"),
    "not a JPEG": (pb.PredictRequest(images=[GOOD, b"hello"]), "images[1] is not a JPEG"),
    "header only": (pb.PredictRequest(images=[GOOD[:30]]), "images[0] has a damaged JPEG header"),
    "65,500 x 65,500": (
        pb.PredictRequest(images=[GOOD.replace(b"\x00\x28\x00\x30", b"\xff\xdc\xff\xdc")]),
        "images[0] is 65500 x 65500 pixels",
    ),
    "unspecified output": (pb.PredictRequest(images=[GOOD], outputs=[pb.OUTPUT_UNSPECIFIED]), "OUTPUT_EMBEDDING"),
    "unknown output": (pb.PredictRequest(images=[GOOD], outputs=[77]), "OUTPUT_EMBEDDING"),  # type: ignore[list-item]
}


@BOTH
@pytest.mark.parametrize("case", WRONG)
async def test_wrong_requests_are_refused_before_a_backend(gateway: Gateway, backend: str, case: str) -> None:
    """INVALID_ARGUMENT, a message that says what to do, no backend called, and the next good request works."""
    request, text = WRONG[case]
    metadata = (("x-backend", backend),)
    error = await failure(gateway.stub.Predict(request, metadata=metadata))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert text in (error.details() or "")
    assert "server-timing" in dict(error.trailing_metadata())
    assert gateway.torchserve.calls + gateway.triton.calls == 0
    assert (await gateway.stub.Predict(pb.PredictRequest(images=[GOOD]), metadata=metadata)).predictions


async def test_unknown_backend_is_told_the_choices(gateway: Gateway) -> None:
    """The message lists them; both kinds of call."""
    metadata = (("x-backend", "onnx"),)
    unary = gateway.stub.Predict(pb.PredictRequest(images=[GOOD]), metadata=metadata)
    stream = gateway.stub.PredictStream(iter([pb.PredictStreamRequest()]), metadata=metadata).read()
    for call in (unary, stream):
        error = await failure(call)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == "x-backend is 'onnx': send torchserve or triton, or leave it out for torchserve"


async def test_torchserve_refuses_more_classes_than_it_answers(gateway: Gateway) -> None:
    """top_k 6 is refused by TorchServe's backend and answered by Triton's."""
    request = pb.PredictRequest(images=[GOOD], top_k=6)
    error = await failure(gateway.stub.Predict(request))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "at most 5" in (error.details() or "")
    answer = await gateway.stub.Predict(request, metadata=TRITON)
    assert len(answer.predictions[0].classes) == 6


async def test_bytes_that_are_no_message(gateway: Gateway) -> None:
    """Garbage on the wire is INVALID_ARGUMENT, where gRPC itself would say UNKNOWN or INTERNAL."""
    call: Any = gateway.channel.unary_unary(f"/{service.SERVICE}/Predict")
    error = await failure(call(b"\xff\xff\xff garbage"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "fiveway.vision.v1.PredictRequest" in (error.details() or "")


@pytest.mark.parametrize("path", ["/fiveway.vision.v1.VisionService/Nothing", "/some.Other/Predict"])
async def test_unknown_method(gateway: Gateway, path: str) -> None:
    """UNIMPLEMENTED says what there is."""
    call: Any = gateway.channel.unary_unary(path)
    error = await failure(call(b""))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "/fiveway.vision.v1.VisionService/Predict" in (error.details() or "")


async def test_a_message_over_the_limit(gateway: Gateway) -> None:
    """One byte over 32 MiB is RESOURCE_EXHAUSTED; the connection lives on."""
    error = await failure(gateway.stub.Predict(pb.PredictRequest(images=[bytes(MAX_MESSAGE_BYTES)])))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await gateway.stub.Predict(pb.PredictRequest(images=[GOOD]))


async def test_an_image_over_the_limit(gateway: Gateway) -> None:
    """20 MiB and a byte is RESOURCE_EXHAUSTED, by name."""
    error = await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD + bytes(20 * 1024 * 1024)])))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "images[0] is 20 MiB" in (error.details() or "")


# Failing backends


@pytest.mark.parametrize("http", [500, 503, 507])
async def test_failing_torchserve_is_unavailable(gateway: Gateway, http: int) -> None:
    """Its own words stay in our log; the client is told to try again."""
    gateway.torchserve.status, gateway.torchserve.message = http, "Traceback: secret"
    error = await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD])))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "try again" in (error.details() or "")
    assert "secret" not in (error.details() or "")


async def test_a_bug_is_internal_with_fixed_words(gateway: Gateway) -> None:
    """An answer that we cannot read is INTERNAL; nothing of it reaches the client."""
    gateway.torchserve.garbage = True
    error = await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD])))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert error.details() == "internal error: the server's log has the details"


@BOTH
async def test_deadline_is_passed_on(gateway: Gateway, backend: str) -> None:
    """After the client's deadline nothing is left running at the backend."""
    behaviour = getattr(gateway, backend)
    behaviour.gate.clear()
    call = gateway.stub.Predict(pb.PredictRequest(images=[GOOD]), timeout=0.3, metadata=(("x-backend", backend),))
    error = await failure(call)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: (behaviour.at_work, behaviour.cancelled) == (0, 1))


@BOTH
async def test_cancellation_is_passed_on(gateway: Gateway, backend: str) -> None:
    """A client that gives up frees the backend."""
    behaviour = getattr(gateway, backend)
    behaviour.gate.clear()
    call = gateway.stub.Predict(pb.PredictRequest(images=[GOOD]), metadata=(("x-backend", backend),))
    task = asyncio.ensure_future(call)
    await until(lambda: behaviour.at_work > 0)
    call.cancel()
    await asyncio.wait([task])
    await until(lambda: (behaviour.at_work, behaviour.cancelled) == (0, 1))


async def test_too_much_at_once_is_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a batch is refused at once with words, and works when the crowd has gone."""
    monkeypatch.setattr(service, "MAX_AT_WORK", 2)
    gateway.torchserve.gate.clear()
    crowd = [asyncio.ensure_future(gateway.stub.Predict(pb.PredictRequest(images=[GOOD]))) for _ in range(2)]
    await until(lambda: gateway.torchserve.at_work >= 2)
    error = await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD])))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "try again" in (error.details() or "")
    gateway.torchserve.gate.set()
    await asyncio.gather(*crowd)
    assert await gateway.stub.Predict(pb.PredictRequest(images=[GOOD]))
