"""Where a call's time goes: parts that add up to the encoding of its request and its latency.

    client encode         making the request's bytes: before the clock, in no latency
    network and edge      client, edge, the ways between them and to the server, the server's own transport
    decode and preprocess JPEG to tensor, on the server: none where the client sends tensors
    queue                 waiting for the model
    compute               the model, and bringing its inputs to where it runs
    response              making the answer
    residue               of the server's time what none of its stages names; below 0 where stages overlap

Sources: `Server-Timing` of our servers, Triton's statistics, and `x-edge-timing`, which envoy.yaml adds to each answer:
`hold` from the request's first byte to the first one sent on, `send` until the last one, `upstream` from there to the
answer's first byte. All are means per successful call.

What a server's clock covers, and so what the parts mean, differs:

- Triton (onnx-*, trt-*): from the request's arrival in its core, received and parsed, to its answer. `compute_input`
  copies the tensors of a batch together and into the backend: it is paid for the model's sake, hence compute.
- onnx-jpeg-*: two models of Triton's in a row, of which the first one's compute is decode and preprocess. What a call
  waits for each of them is residue.
- jpeg-http: from the request's head. Receiving the body is network: the server's time begins when the edge has sent
  the body on, if that is later. Direct, nobody says when that was: it is residue, as is parsing JSON and base64.
- torchserve-http: the handler alone. What lies between the edge's last byte and the answer's first one, less the
  handler, is TorchServe's own queue and the way there and back through its front end: queue. Direct, that cannot be
  told from the network: all of it is residue.
- torchserve-grpc: says nothing. Through the edge all of TorchServe is residue.
- typed-grpc, typed-http: the gateway. Its call to the server behind it, with decoding and queue there, is compute.
"""

import re
from collections.abc import Mapping
from typing import Any

from bench.measure.measured import Visit

ENCODE, NETWORK, DECODE, QUEUE, COMPUTE, RESPONSE, RESIDUE = PARTS = (
    "client encode",
    "network and edge",
    "decode and preprocess",
    "queue",
    "compute",
    "response",
    "residue",
)
NAMED = DECODE, QUEUE, COMPUTE, RESPONSE
"""Those that a server says itself."""
EDGE_TIMING = "x-edge-timing"

# As our servers write it: `dur` first, nothing quoted.
_STAGE = re.compile(r"([\w.-]+) *; *dur=(\d{1,9}(?:\.\d{1,9})?)(?![\w.])")
_HOP = re.compile(r"([\w-]+)=(\d{1,12})(?!\w)")
# Headers of this stack are a tenth of this. Longer ones would cost the load too much time.
_LONGEST = 2000


def stages_of(headers: Mapping[str, Any]) -> dict[str, float]:
    """`server.<stage>` and `edge.<stage>` in ms. Malformed entries are left out; a stage that occurs twice is summed.

    `headers` finds by lower-case name: a text, or a list of texts where a header came several times.
    """
    stages: dict[str, float] = {}
    for name, ms in _STAGE.findall(_text(headers, "server-timing")):
        key = f"server.{name}"
        stages[key] = stages.get(key, 0.0) + float(ms)
    for name, us in _HOP.findall(_text(headers, EDGE_TIMING)):
        key = f"edge.{name}"
        stages[key] = stages.get(key, 0.0) + int(us) / 1e3
    return stages


def _text(headers: Mapping[str, Any], name: str) -> str:
    found = headers.get(name, "")
    text = found if isinstance(found, str) else ", ".join(found)
    return text[:_LONGEST]


def split(visit: Visit) -> dict[str, float] | None:
    """PARTS in ms; their sum is `encode_ms` + `mean_ms`. None without a successful call, or if no server reported its
    time."""
    if visit.mean_ms is None or (found := _server(visit.stages_ms, visit.mean_ms)) is None:
        return None
    server_ms, named = found
    apart = {ENCODE: visit.encode_ms, NETWORK: visit.mean_ms - server_ms, RESIDUE: server_ms - sum(named.values())}
    return dict.fromkeys(PARTS, 0.0) | named | apart


def reported(*splits: Mapping[str, float]) -> list[str]:
    """The parts that all of these splits report. What is left over says nothing, and a server that names no part of
    its time reports none."""
    silent = any(not any(found[part] for part in NAMED) for found in splits)
    return [ENCODE, NETWORK, *(() if silent else NAMED)]


def _server(stages: Mapping[str, float], mean_ms: float) -> tuple[float, dict[str, float]] | None:
    """(the server's time, its named parts) in ms; None if the server reports no time."""
    upstream = stages.get("edge.upstream")
    if "triton.total" in stages:
        decode = stages.get("triton.decode", 0.0)
        return stages["triton.total"], {
            DECODE: decode,
            QUEUE: stages["triton.queue"],
            COMPUTE: stages["triton.compute_input"] + stages["triton.compute_infer"] - decode,
            RESPONSE: stages["triton.compute_output"],
        }
    total = stages.get("server.total")
    if total is None:
        return None if upstream is None else (upstream, {})
    named = {
        DECODE: stages.get("server.preprocess", 0.0),
        QUEUE: stages.get("server.queue", 0.0),
        COMPUTE: stages.get("server.compute", 0.0) + stages.get("server.backend", 0.0),
        RESPONSE: stages.get("server.encode", 0.0),
    }
    if "server.queue" in stages:  # jpeg-http
        return total if upstream is None else min(total, upstream), named
    if "server.backend" in stages:  # the typed gateway
        return total, named
    return (mean_ms, named) if upstream is None else (upstream, named | {QUEUE: upstream - total})
