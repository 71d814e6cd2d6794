"""The handler inside the .mar: JPEG or base64 JSON in, JSON out, one answer per request of a batch.

TorchServe collects single requests into a batch. A bad image fails its own request only: the others are answered. Over
gRPC, TorchServe cannot say a status per request: it answers OK with the error JSON in `prediction`.

Unregistering a model under load would leave its waiting requests without any answer. So a model that is no
longer served is retired (swap.py): its worker stays, without the model, and answers 404.

TorchServe demands that a handler's module defines exactly one class.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.manifest import Manifest
from gateways.core.serving import ARTIFACTS
from gateways.core.text import parsed_json, unbase64
from gateways.core.timing import Stages
from gateways.upstreams.torchscript import Model, Tensor, give_back_memory, pick_device
from servers import ENGINE
from servers.torchserve import ANSWERED, RETIRED

JSON = "application/json"
EXAMPLE = '{"image": "<base64>"}'
TAKEN = ("", "image/jpeg", "application/octet-stream", "multipart/form-data", JSON)


def jpeg_of(fields: Mapping[str, Any], content_type: str) -> bytes:
    """The JPEG of one request. Raises ServeError.

    `fields`: `body` (a raw HTTP body) or `data` (a gRPC input or a form part). JSON is known by its type, or over gRPC,
    which has none, by its first byte: no JPEG starts with a brace or a quote. It may have the forms of TorchServe's
    usual clients: {"image": "<base64>"}, {"data": ...}, "<base64>", {"instances": [{"b64": ...}]} of one image.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in TAKEN:
        text = f"content-type is {kind}: send image/jpeg, or {JSON} with {EXAMPLE}"
        raise ServeError(Status.UNSUPPORTED_MEDIA, text)
    value = fields.get("body", fields.get("data"))
    if value is None:
        raise ServeError(Status.INVALID, 'no image: send it as the body, or under the key "data"')
    data = bytes(value)
    if kind != JSON and data[:1] not in (b"{", b'"'):
        return data
    match message := parsed_json(data, EXAMPLE):
        case str(text):
            return unbase64(text, "the JSON string")
        case {"image": str(text)} | {"data": str(text)}:
            return unbase64(text, f'"{"image" if "image" in message else "data"}"')
        case {"instances": [{"b64": str(text)} | {"data": {"b64": str(text)}} | {"image": {"b64": str(text)}}]}:
            return unbase64(text, '"instances"')
        case {"instances": list(several)} if len(several) != 1:
            raise ServeError(Status.INVALID, f"{len(several)} instances: send one image per request")
    raise ServeError(Status.INVALID, f'the field "image" is missing or not a string: send {EXAMPLE}')


class JpegHandler:
    """Loaded once per worker process by TorchServe."""

    def initialize(self, context: Any) -> None:
        """Load the model from the archive, labels and preprocessing from the artefacts."""
        # The worker's own lines per request ("Backend received inference", metrics) are INFO; ours are not.
        logging.getLogger().setLevel(logging.WARNING)
        self._manifest = Manifest.load(ARTIFACTS, context.model_name)
        archive = Path(context.system_properties["model_dir"])
        self._path = archive / context.manifest["model"]["serializedFile"]
        self._model: Model | None = None
        self._load()

    def handle(self, data: list[Mapping[str, Any]], context: Any) -> list[bytes]:
        """One JSON answer per request, in order; status and Server-Timing are set on the context."""
        stages = [Stages() for _ in data]
        types = [_header(context.get_all_request_header(i), "content-type") for i in range(len(data))]
        if (retired := RETIRED / self._manifest.model).exists():
            retired.touch()
            answers: list[Prediction | ServeError] = [self._refuse()] * len(data)
        else:
            answers = self._predict(data, types, stages)
        bodies = []
        for i, answer in enumerate(answers):
            with stages[i].stage("encode"):
                body, status = self._encode(answer)
            bodies.append(body)
            context.set_response_status(status, HTTPStatus(status).phrase, i)
            context.set_response_content_type(i, JSON)
            context.set_response_header(i, "server-timing", stages[i].header())
        return bodies

    def _load(self) -> Model:
        """The model, which is loaded first if it never was or has been retired."""
        if not self._model:
            self._model = Model(self._path, self._manifest, pick_device())
            ENGINE.write_bytes(orjson.dumps(self._model.engine))
        return self._model

    def _refuse(self) -> ServeError:
        if self._model:
            self._model.close()
            self._model = None
            give_back_memory()
        text = f"model not available: {self._manifest.model} is not served any more, another model was swapped in"
        return ServeError(Status.NOT_FOUND, text)

    def _predict(
        self, data: Sequence[Mapping[str, Any]], types: Sequence[str], stages: Sequence[Stages]
    ) -> list[Prediction | ServeError]:
        """One per request: an error must not reach the other requests of the batch."""
        model = self._load()
        found = model.answers([partial(self._tensor, *one) for one in zip(data, types, strict=True)])
        for request in stages:
            request.add("preprocess", found.preprocess_s * 1e3)
            request.add("compute", found.compute_s * 1e3)
        if any(isinstance(one, Prediction) for one in found.found):
            ANSWERED.touch()
        return found.found

    def _tensor(self, fields: Mapping[str, Any], content_type: str) -> Tensor:
        return self._manifest.preprocess.tensor(jpeg_of(fields, content_type), channels_last=True)

    def _encode(self, answer: Prediction | ServeError) -> tuple[bytes, int]:
        """The JSON body and its HTTP status."""
        if isinstance(answer, ServeError):
            status = answer.status.http
            kind = "InvalidInput" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "InternalError"
            return orjson.dumps({"code": status, "type": kind, "message": answer.message}), status
        content = {
            "model": self._manifest.model,
            "weights": self._manifest.weights,
            "embedding": answer.embedding,
            "classes": answer.classes,
        }
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), HTTPStatus.OK


def _header(headers: Mapping[str, Any], name: str) -> str:
    """A request header by its name in any case; "" when absent (gRPC has none)."""
    return next((str(value) for key, value in headers.items() if key.lower() == name), "")
