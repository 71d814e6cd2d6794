"""A small OTLP receiver: over HTTP, protobuf as Envoy and the gateways send it, and JSON as Triton does.

`python -m tests.otlp` receives on port 4318, and prints a line of JSON for each span.
"""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import uvicorn
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@dataclass(frozen=True)
class Span:
    """Ids are hexadecimal, as in a traceparent; `parent` is empty where a trace begins."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: str = ""
    """As JSON."""

    @property
    def traceparent(self) -> str:
        """What the next hop hears."""
        return f"00-{self.trace}-{self.id}-01"


CALLER = Span("a client", "a call", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "")


def receiver(told: Callable[[Span], object]) -> Starlette:
    """`told` gets every span."""

    async def receive(request: Request) -> Response:
        for span in _spans(request.headers["content-type"], await request.body()):
            told(span)
        return Response()

    return Starlette(routes=[Route("/v1/traces", receive, methods=["POST"])])


def _spans(kind: str, body: bytes) -> Iterator[Span]:
    # As protobuf writes JSON, bytes are base64; OTLP's own JSON has hexadecimal ids.
    is_json = kind == "application/json"
    sent: Any = json.loads(body) if is_json else MessageToDict(ExportTraceServiceRequest.FromString(body))
    for resource in sent["resourceSpans"]:
        about = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            ids = [span.get(key, "") for key in ("traceId", "spanId", "parentSpanId")]
            trace, id_, parent = ids if is_json else [base64.b64decode(one).hex() for one in ids]
            attributes = json.dumps(span.get("attributes"))
            yield Span(about["service.name"]["stringValue"], span["name"], trace, id_, parent, attributes)


def main() -> None:
    app = receiver(lambda span: print(json.dumps(asdict(span)), flush=True))
    uvicorn.run(app, host="0.0.0.0", port=4318, log_level="warning")


if __name__ == "__main__":
    main()
