"""The trace that a request is part of (docs/metrics.md): W3C's `traceparent` and `tracestate` go to the upstream.

With OTLP_ENDPOINT a request is also a span, and the upstream hears of that one. Without it they are passed on as they
came, and nothing of OpenTelemetry's SDK is imported.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from gateways.core.timing import Stages

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

HEADERS = ("traceparent", "tracestate")

passed_on: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("passed_on", default=())
"""The headers or metadata of a call to an upstream, in this request's task and in the tasks that it makes."""

_tracer: "Tracer | None" = None


def export(service: str) -> None:
    """Send a span of each request to OTLP_ENDPOINT, from a thread of its own. Without one, do nothing."""
    global _tracer
    if endpoint := os.environ.get("OTLP_ENDPOINT"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
        _tracer = provider.get_tracer("fiveway")


@contextmanager
def traced(name: str, headers: Mapping[str, Any], stages: Stages) -> Iterator[None]:
    """The body is one request with these headers or metadata. Its span has the stages as attributes, in ms."""
    came = {key: headers[key] for key in HEADERS if key in headers}
    if not _tracer:
        passed_on.set(tuple(came.items()))
        yield
        return
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    w3c, sent = TraceContextTextMapPropagator(), dict[str, str]()
    with _tracer.start_as_current_span(name, w3c.extract(came), SpanKind.SERVER) as span:
        w3c.inject(sent)
        passed_on.set(tuple(sent.items()))
        try:
            yield
        finally:
            span.set_attributes({f"fiveway.{stage}_ms": ms for stage, ms in stages.until_now().items()})
