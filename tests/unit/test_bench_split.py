"""Where a call's time goes: every server's stages as parts of a call, with and without the edge's word."""

import pytest

from bench.measure.measured import Visit
from bench.measure.split import PARTS, split, stages_of

ENCODE_MS, MEAN_MS = 2.0, 40.0
_TRITON = {"queue": 2.0, "compute_input": 0.5, "compute_infer": 30.0, "compute_output": 1.5, "total": 34.75}
TRITON = {f"triton.{stage}": ms for stage, ms in _TRITON.items()}
HANDLER = {"server.preprocess": 3.0, "server.compute": 20.0, "server.encode": 1.0, "server.total": 25.0}
JPEG_HTTP = {**HANDLER, "server.queue": 5.0, "server.total": 30.0}
GATEWAY = {"server.preprocess": 4.0, "server.backend": 20.0, "server.total": 26.0}


def visit(stages: dict[str, float], mean_ms: float | None = MEAN_MS) -> Visit:
    return Visit(1, 1, "", mean_ms=mean_ms, encode_ms=ENCODE_MS, stages_ms=stages)


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [
        pytest.param(TRITON, (5.25, 0, 2, 30.5, 1.5, 0.75), id="Triton: bringing the inputs to the model is compute"),
        pytest.param(TRITON | {"edge.upstream": 36.0}, (5.25, 0, 2, 30.5, 1.5, 0.75), id="Triton behind the edge"),
        pytest.param(TRITON | {"triton.decode": 4.0}, (5.25, 4, 2, 26.5, 1.5, 0.75), id="Triton decodes photos"),
        pytest.param(TRITON | {"triton.total": 30.0}, (10, 0, 2, 30.5, 1.5, -4), id="stages that overlap"),
        pytest.param(JPEG_HTTP, (10, 3, 5, 20, 1, 1), id="jpeg-http"),
        pytest.param(JPEG_HTTP | {"edge.upstream": 33.0}, (10, 3, 5, 20, 1, 1), id="jpeg-http behind the edge"),
        pytest.param(JPEG_HTTP | {"edge.upstream": 29.5}, (10.5, 3, 5, 20, 1, 0.5), id="receiving a body is network"),
        pytest.param(HANDLER, (0, 3, 0, 20, 1, 16), id="TorchServe: queue and network cannot be told apart"),
        pytest.param(HANDLER | {"edge.upstream": 36.0}, (4, 3, 11, 20, 1, 1), id="TorchServe's queue, both ways"),
        pytest.param(GATEWAY, (14, 4, 0, 20, 0, 2), id="the call of a typed gateway is compute"),
        pytest.param(GATEWAY | {"edge.upstream": 30.0}, (14, 4, 0, 20, 0, 2), id="a typed gateway behind the edge"),
        pytest.param({"edge.hold": 0.25, "edge.upstream": 36.0}, (4, 0, 0, 0, 0, 36), id="only the edge says a word"),
    ],
)
def test_every_stage_has_its_part(stages: dict[str, float], wanted: tuple[float, ...]) -> None:
    """What no stage names is the residue, and what lies before and after the server is the network's."""
    found = split(visit(stages))
    assert found is not None
    assert tuple(found) == PARTS
    assert tuple(found.values()) == pytest.approx((ENCODE_MS, *wanted))


def test_what_cannot_be_split() -> None:
    """No word of the server's time, or no successful call."""
    assert split(visit({})) is None
    assert split(visit({"edge.hold": 1.0})) is None
    assert split(visit(TRITON, mean_ms=None)) is None


@pytest.mark.parametrize(
    ("timing", "wanted"),
    [
        ("preprocess;dur=0.812, queue;dur=0, compute ; dur=15", {"preprocess": 0.812, "queue": 0.0, "compute": 15.0}),
        (["compute;dur=1.5, total;dur=4", "compute;dur=2"], {"compute": 3.5, "total": 4.0}),
    ],
)
def test_stages_of_headers(timing: str | list[str], wanted: dict[str, float]) -> None:
    """All stages of both headers in ms; a stage that came twice is summed."""
    found = stages_of({"server-timing": timing, "x-edge-timing": "hold=263, send=20, upstream=58840"})
    edge = {"edge.hold": 0.263, "edge.send": 0.02, "edge.upstream": 58.84}
    assert found == {f"server.{stage}": ms for stage, ms in wanted.items()} | edge


GARBAGE = ["", ",;=", "dur=3", "total", "total;dur=", "total;dur=x", "total;dur=-1", "total;dur=1e3", "total;dur=nan"]


@pytest.mark.parametrize("garbage", [*GARBAGE, "total;dur=99999999999999", "a;b;c" * 10_000, "\x00\xff"])
def test_garbage_is_no_time(garbage: str) -> None:
    """What cannot be read is left out."""
    assert stages_of({"server-timing": garbage, "x-edge-timing": "hold=, send=-, upstream=1x"}) == {}
