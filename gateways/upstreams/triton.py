"""Triton: JPEGs are decoded and preprocessed here, in threads; one KServe v2 call per batch."""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

import grpc
import numpy as np
import numpy.typing as npt
from tritonclient.grpc import service_pb2 as kserve
from tritonclient.grpc import service_pb2_grpc as kserve_grpc

from gateways.core.answer import TOP_K, Prediction, predictions
from gateways.core.errors import ServeError, Status
from gateways.core.manifest import Manifest
from gateways.core.timing import Stages
from gateways.core.traces import passed_on
from gateways.upstreams.calls import not_loaded, tensors, within

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # a batch of 32 is 19.3 MB
_CHANNEL = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Calls are spread over all addresses of the name: over every replica.
    ("grpc.lb_policy_name", "round_robin"),
    # Find a restarted Triton within 2 s: gRPC's own pauses between tries grow to 2 minutes, and it asks DNS every 30 s.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # A Triton that vanished without a FIN is noticed under load after 20 + 10 s.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
STATISTICS_TIMEOUT_S = 2.0
# INTERNAL is what a dead model process answers until Triton's health check heals it.
FAILED = {grpc.StatusCode[name] for name in ("UNAVAILABLE", "INTERNAL", "CANCELLED", "RESOURCE_EXHAUSTED", "UNKNOWN")}


class Triton:
    """The model of `manifest` behind Triton's gRPC at `address` (host:port). `threads` decodes and preprocesses."""

    name = "triton"
    max_top_k: int | None = None

    def __init__(self, address: str, manifest: Manifest, *, threads: Executor) -> None:
        self._manifest = manifest
        self._threads = threads
        self._channel = grpc.aio.insecure_channel(address, options=_CHANNEL)
        self._stub = kserve_grpc.GRPCInferenceServiceStub(self._channel)

    async def predict(
        self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None, top_k: int = TOP_K
    ) -> list[Prediction]:
        """See gateways.upstreams. `preprocess` in `stages` includes the wait for a free thread."""
        async with within(timeout, "Triton") as limit:
            with stages.stage("preprocess"):
                names = [f"images[{i}]" for i in range(len(jpegs))]
                batch = await tensors(self._threads, self._manifest.preprocess, jpegs, names)
            with stages.stage("backend"):
                outputs = await self._infer(batch, limit.when())
        wanted = ("embedding", "logits") if self._manifest.labels else ("embedding",)
        return predictions([outputs[name] for name in wanted], self._manifest.labels, top_k)

    async def answered(self) -> float:
        """The number of requests for the model that Triton has answered, for any client; NaN when it does not say."""
        request = kserve.ModelStatisticsRequest(name=self._manifest.model)
        try:
            statistics = await self._stub.ModelStatistics(request, timeout=STATISTICS_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return math.nan
        return sum(version.inference_stats.success.count for version in statistics.model_stats)

    async def close(self) -> None:
        await self._channel.close()

    async def _infer(
        self, batch: npt.NDArray[np.float32], until: float | None
    ) -> Mapping[str, npt.NDArray[np.float32]]:
        """The model's outputs by name. `until`, on the event loop's clock, is the call's deadline at Triton too.
        Cancelling this cancels the call. Raises TimeoutError and ServeError."""
        request = kserve.ModelInferRequest(
            model_name=self._manifest.model,
            inputs=[kserve.ModelInferRequest.InferInputTensor(name="image", datatype="FP32", shape=batch.shape)],
            raw_input_contents=[batch.tobytes()],
        )
        try:
            left = None if until is None else max(0.0, until - asyncio.get_running_loop().time())
            answer = await self._stub.ModelInfer(request, timeout=left, metadata=passed_on.get())
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:  # a moment before ours
                raise TimeoutError from error
            raise self._failed(error) from error
        return {
            output.name: np.frombuffer(raw, dtype=np.float32).reshape(output.shape)
            for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
        }

    def _failed(self, error: grpc.aio.AioRpcError) -> ServeError:
        log.warning("Triton: %s: %s", error.code().name, error.details())
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return not_loaded("Triton", self._manifest.model)
        if error.code() in FAILED:
            return ServeError(
                Status.UNAVAILABLE, "Triton failed, it may be restarting or full: try again in a few seconds"
            )
        # The gateway made the request, so a malformed one is a bug here.
        raise RuntimeError(f"Triton refused our request: {error.code().name}: {error.details()}") from error
