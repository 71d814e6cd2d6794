"""tritonclient, Triton's own Python client, used as its examples do: `infer` makes the request of arrays and `as_numpy`
reads the answer, both on the clock. Every other client here sends ready bytes and is timed without reading.
"""

import json
from collections.abc import Sequence
from typing import Any

import gevent
import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc.service_pb2 import ModelInferRequest
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from locustfiles.clients import Answer, CallError, Endpoint, Payload, tls

SHAPE = "shape"
"""The header of an Answer whose body is one FP32 array."""
# Channels with the same target share a connection unless told otherwise, and no message is too long.
CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]


def arguments(library: Any, protocol: str, path: str, payload: Payload) -> dict[str, Any]:
    """The arguments of `infer` for a request of payloads.kserve, by tritonclient.http or .grpc (`library`)."""
    inputs = []

    def add(name: str, kind: str, shape: Sequence[int], raw: bytes) -> None:
        array = np.frombuffer(raw, triton_to_np_dtype(kind)).reshape(shape)
        inputs.append(library.InferInput(name, list(shape), kind).set_data_from_numpy(array))

    if protocol == "gRPC":
        message = ModelInferRequest.FromString(payload.body)
        model, outputs = message.model_name, [one.name for one in message.outputs]
        for one, raw in zip(message.inputs, message.raw_input_contents, strict=True):
            add(one.name, one.datatype, one.shape, raw)
    else:
        start = int(payload.headers["inference-header-content-length"])
        head = json.loads(payload.body[:start])
        model, outputs = path.split("/")[3], [said["name"] for said in head["outputs"]]  # /v2/models/<model>/infer
        for said in head["inputs"]:
            end = start + said["parameters"]["binary_data_size"]
            add(said["name"], said["datatype"], said["shape"], payload.body[start:end])
            start = end
    return {"model_name": model, "inputs": inputs, "outputs": [library.InferRequestedOutput(name) for name in outputs]}


def read(answer: Answer) -> Any:
    """[N, D], from the answer of a client of this module."""
    return np.frombuffer(answer.body, np.float32).reshape(answer.headers[SHAPE])


def array(result: Any, outputs: Sequence[Any]) -> Answer:
    """The only output of an InferResult."""
    (output,) = outputs
    found = result.as_numpy(output.name())
    return Answer(found.tobytes(), {SHAPE: found.shape})


class TritonClient:
    """tritonclient.http or tritonclient.grpc, on one connection of its own."""

    def __init__(self, to: Endpoint, *, protocol: str) -> None:
        from locustfiles.clients.grpcio import waiting  # only where gevent has patched the standard library

        self._to, self._protocol, self._waiting = to, protocol, waiting
        self._every: dict[str, Any] = {"headers": dict(to.headers)}
        if protocol == "gRPC":
            self._library: Any = tritonclient.grpc
            self._client = self._library.InferenceServerClient(
                to.host, ssl=to.tls, root_certificates=tls.bundle() if to.tls else None, channel_args=CHANNEL
            )
            self._every["client_timeout"] = to.deadline_s
        else:
            self._library = tritonclient.http
            self._client = self._library.InferenceServerClient(to.host, ssl=to.tls, ssl_context_factory=tls.context)
        self._ready: dict[int, tuple[Payload, dict[str, Any]]] = {}
        self._connects = True  # with its first call

    def send(self, payload: Payload) -> Answer:
        if self._connects:
            self._to.on_connect()
            self._connects = False
        if id(payload) not in self._ready:  # in the warm-up
            self._ready[id(payload)] = payload, arguments(self._library, self._protocol, self._to.path, payload)
        asked = self._ready[id(payload)][1] | self._every
        try:
            with gevent.Timeout(self._to.deadline_s), self._waiting():
                return array(self._client.infer(**asked), asked["outputs"])
        except gevent.Timeout:
            raise CallError(f"{self._protocol} timeout: no answer in {self._to.deadline_s:g} s") from None
        except InferenceServerException as error:
            raise CallError(f"{error.status() or 'HTTP'}: {error.message()}"[:200]) from error
        except OSError as error:
            raise CallError(f"{self._protocol} connection: {error}") from error

    def close(self) -> None:
        self._client.close()
