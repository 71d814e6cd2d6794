"""Small real servers that stand for TorchServe and Triton: they speak the true protocols and misbehave on demand."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import grpc
import numpy as np
from aiohttp import web
from aiohttp.test_utils import TestServer
from PIL import Image
from tritonclient.grpc import service_pb2 as kserve
from tritonclient.grpc import service_pb2_grpc as kserve_grpc

from gateways.core.manifest import Manifest
from gateways.core.preprocess import Preprocess
from gateways.core.serving import Serving

MODEL = "tiny"
LABELS = tuple(f"label {i}" for i in range(10))
DIM = 8
SIDE = 32
WAIT_S = 60
Kind = Literal["classifier", "embedding"]


def manifest(kind: Kind = "classifier", model: str = MODEL) -> Manifest:
    """A model that was never built: the fakes answer in its shape."""
    steps = Preprocess(SIDE, SIDE, "bilinear", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    return Manifest(Path("/nowhere"), model, kind, "random", steps, LABELS if kind == "classifier" else ())


def write(artifacts: Path, found: Manifest) -> Path:
    """The folder of these artefacts, as the models service writes it, without the model itself."""
    folder = artifacts / found.model
    folder.mkdir(parents=True)
    if found.labels:
        (folder / "labels.txt").write_text("".join(f"{label}\n" for label in found.labels))
    data = {**asdict(found), "directory": "", "schema": 1, "classes": len(found.labels)}
    (folder / "manifest.json").write_text(json.dumps(data))
    return folder


def serving(model: str = MODEL) -> Serving:
    """As the models service writes it when `model` is served."""
    return Serving(model, f"{model}_trt", True, (model, f"{model}_trt"))


def jpeg(shade: int = 128, size: tuple[int, int] = (48, 40)) -> bytes:
    """A plain grey photo; the fakes answer its shade."""
    out = io.BytesIO()
    Image.new("RGB", size, (shade, shade, shade)).save(out, "JPEG")
    return out.getvalue()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another task or thread makes true."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, f"not so within {WAIT_S} s"
        await asyncio.sleep(0.01)


@dataclass
class Behaviour:
    """What the fake does, and what it saw. `gate` holds answers back while it is cleared."""

    models: tuple[str, ...] = (MODEL,)
    status: int = 200
    code: grpc.StatusCode | None = None
    message: str = ""
    garbage: bool = False
    refused: bytes = b""
    """TorchServe: a photo that is answered with 400 at once, whatever the gate."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    calls: int = 0
    at_work: int = 0
    most_at_work: int = 0
    cancelled: int = 0
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    traceparents: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def work(self) -> None:
        """Be one call: wait for the gate, and notice when the caller gives up."""
        self.calls += 1
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_work -= 1


@asynccontextmanager
async def torchserve(behaviour: Behaviour) -> AsyncIterator[str]:
    """TorchServe's REST interface with our handler's answers; yields its URL."""

    async def predict(request: web.Request) -> web.Response:
        body = await request.read()
        behaviour.bodies.append(body)
        behaviour.traceparents.append(request.headers.get("traceparent", ""))
        status = 400 if body == behaviour.refused else behaviour.status
        if body != behaviour.refused:
            await behaviour.work()
            status = status if request.match_info["model"] in behaviour.models else 404
        if status != 200:
            return web.json_response({"code": status, "type": "Some", "message": behaviour.message}, status=status)
        if behaviour.garbage:
            return web.Response(text="<html>")
        shade = Image.open(io.BytesIO(body)).convert("L").resize((1, 1)).getpixel((0, 0))
        assert isinstance(shade, int)
        # The first class says the shade.
        order = sorted(range(len(LABELS)), key=lambda i: i != shade * len(LABELS) // 256)[:5]
        classes = [{"index": i, "label": LABELS[i], "score": 0.2} for i in order]
        answer = {"model": MODEL, "weights": "random", "embedding": [float(shade)] * DIM, "classes": classes}
        return web.Response(body=json.dumps(answer), content_type="application/json")

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/predictions/{model}", predict)
    async with TestServer(app) as server:  # it cancels a call whose client has gone
        try:
            yield str(server.make_url(""))
        finally:
            behaviour.gate.set()


class _Triton(kserve_grpc.GRPCInferenceServiceServicer):
    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        self.behaviour.traceparents.append(dict(context.invocation_metadata()).get("traceparent", ""))
        await self.behaviour.work()
        if self.behaviour.code:
            await context.abort(self.behaviour.code, self.behaviour.message)
        if request.model_name not in self.behaviour.models:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no")
        (tensor,) = request.inputs
        assert (tensor.name, tensor.datatype) == ("image", "FP32")
        self.behaviour.shapes.append(tuple(tensor.shape))
        means = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(tensor.shape).mean(axis=(1, 2, 3))
        embedding = np.repeat(means[:, None], DIM, axis=1)
        logits = -np.abs(np.linspace(-1, 1, len(LABELS), dtype=np.float32) - means[:, None]) * 10
        answer = kserve.ModelInferResponse(model_name=MODEL)
        for name, value in (("embedding", embedding), ("logits", logits)):
            answer.outputs.add(name=name, datatype="FP32", shape=value.shape)
            answer.raw_output_contents.append(value.tobytes())
        return answer

    async def ModelStatistics(self, request: Any, context: Any) -> Any:
        answered = kserve.StatisticDuration(count=self.behaviour.calls)
        found = kserve.ModelStatistics(name=MODEL, inference_stats=kserve.InferStatistics(success=answered))
        return kserve.ModelStatisticsResponse(model_stats=[found])


@asynccontextmanager
async def triton(behaviour: Behaviour) -> AsyncIterator[str]:
    """Triton's gRPC interface with a model whose logits follow the mean of the tensor; yields its address."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 64 * 1024 * 1024)])
    kserve_grpc.add_GRPCInferenceServiceServicer_to_server(_Triton(behaviour), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        behaviour.gate.set()
        await server.stop(0)
