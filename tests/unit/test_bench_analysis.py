"""What follows from a run: cells, marks, ratios with verdicts, hypotheses, and the published rows beside them."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.analysis import hypotheses
from bench.analysis.analysis import analyse, doubt_what_may_be_chance
from bench.measure.measured import GATE, Cell, Run, Visit
from bench.measure.split import PARTS
from bench.studies import published
from locustfiles.clients.policy import COLD, PUBLISHED, SHARED
from tests.unit.bench_runs import TENSOR_BYTES, cell_id, change, median_ms, synthetic_run, visit

ONE: dict[str, Any] = {"batches": (1,), "users": (1,)}
HTTP, GRPC = "onnx-http", "onnx-grpc"


def pair(**options: Any) -> Run:
    """onnx-http and onnx-grpc at batch 1 with one user, or what the options say."""
    chosen: dict[str, Any] = {"names": (HTTP, GRPC), "visit_sd": 0.005} | ONE | options
    return synthetic_run(**chosen)


def cell(analysis: dict[str, Any], name: str = HTTP) -> dict[str, Any]:
    (found,) = [one for one in analysis["cells"] if one["id"].startswith(f"{name}/")]
    return dict(found)


def ratio(analysis: dict[str, Any], measure: str = "p50_ms", **factors: Any) -> dict[str, Any]:
    (found,) = [
        one
        for one in analysis["ratios"]
        if one["measure"] == measure and all(one[name] == value for name, value in factors.items())
    ]
    return dict(found)


def edited(edit: Callable[[Visit], None], name: str = GRPC, **options: Any) -> dict[str, Any]:
    """The analysis of a pair after an edit of every visit to one of its cells."""
    return analyse(change(pair(**options), lambda one: one.name == name, edit))


def fail(one: Visit, failures: int, error: str) -> None:
    one.failures, one.errors = failures, {error: failures}


def test_cells_have_the_numbers_that_were_drawn() -> None:
    """Percentiles, throughput, bytes, connections and the split of a cell are those of its distribution."""
    analysis = analyse(pair(calls=1000), price_per_hour=2.0)
    found = cell(analysis)
    median = median_ms(HTTP)
    assert found["p50_ms"]["low"] < median < found["p50_ms"]["high"]
    assert found["p90_ms"]["value"] == pytest.approx(median * np.exp(0.1 * 1.2816), rel=0.02)
    assert found["p99_ms"]["value"] == pytest.approx(median * np.exp(0.1 * 2.3263), rel=0.04)
    assert found["images_per_s"]["value"] == pytest.approx(1000 / found["mean_ms"], rel=0.01)
    assert (found["requests"], found["failures"], found["blocks"]) == (3 * 1002, 0, 3)
    assert (found["connections"], found["edge_connections"], found["client_cpu"]) == (1, 1, 0.12)
    assert found["sent_bytes_per_image"] == pytest.approx(TENSOR_BYTES * 1.002, rel=1e-6)
    assert found["calls_per_execution"] == 1
    assert tuple(found["split"]) == PARTS
    assert sum(found["split"].values()) == pytest.approx(found["mean_ms"] + 0.4)
    assert found["marks"] == found["notes"] == []
    cost, throughput = found["cost_per_million_images"], found["images_per_s"]
    assert cost["value"] == pytest.approx(2 / 3600 / throughput["value"] * 1e6)
    assert cost["high"] == pytest.approx(2 / 3600 / throughput["low"] * 1e6)
    assert cost["low"] < cost["value"] < cost["high"]


def test_the_same_run_gives_the_same_json() -> None:
    """Everything is JSON, nothing is left to chance, and a subset of the cells has the same numbers."""
    first, again = analyse(pair()), analyse(pair())
    assert json.dumps(first, allow_nan=False) == json.dumps(again, allow_nan=False)
    whole = pair()
    part = replace(whole, cells=whole.cells[:1])
    assert analyse(part)["cells"] == first["cells"][:1]


def test_percentiles_need_calls() -> None:
    """p50 needs 10 calls, p90 100, p99 1,000: over all blocks together."""
    few, some, many = (cell(analyse(pair(calls=calls))) for calls in (3, 34, 334))
    assert [few["p50_ms"], few["p90_ms"]] == [None, None]
    assert "9 calls in the steady windows: a p50 needs at least 10" in few["marks"]
    assert some["p90_ms"]
    assert some["p99_ms"] is None
    assert many["p99_ms"]


@pytest.mark.parametrize(
    ("edit", "mark"),
    [
        (lambda v: setattr(v, "client_cpu", 0.41), "a load process used 41 % of a core (at most 35 %)"),
        (lambda v: setattr(v, "server_requests", 812), "block 1: the server counted 812 calls, the clients 302"),
        (lambda v: setattr(v, "edge_connections", 7), "block 1: the edge accepted 7 connections, the clients opened 1"),
        (lambda v: fail(v, 9, "503: no server"), "27 of 933 calls failed: 503: no server"),
    ],
)
def test_a_marked_cell_gets_no_verdict(edit: Callable[[Visit], None], mark: str) -> None:
    """What speaks against one of two cells stands in its marks, and its ratios have numbers but no verdict."""
    analysis = edited(edit)
    marks = cell(analysis, GRPC)["marks"]
    assert len(marks) == 1
    assert marks[0].startswith(mark)
    found = ratio(analysis)
    assert found["verdict"] == "no verdict"
    assert found["text"] == f"no verdict: onnx-grpc: {marks[0]}"
    assert found["low"] < found["value"] < found["high"]
    assert cell(analysis)["marks"] == []


def test_the_gate_itself_passes() -> None:
    """A load process at the gate is no obstacle."""
    assert ratio(edited(lambda v: setattr(v, "client_cpu", GATE)))["verdict"] == "no difference shown"


def test_a_route_that_disagrees_gets_no_verdict() -> None:
    """Nor does one pass in silence whose answers were never compared."""
    run = pair()
    run.parity[GRPC] = {"agrees": False, "cosine": 0.4, "why": "cosine 0.40 to onnx-http"}
    del run.parity[HTTP]
    analysis = analyse(run)
    assert cell(analysis, GRPC)["marks"] == ["its answers do not agree with the reference: cosine 0.40 to onnx-http"]
    assert cell(analysis)["notes"] == ["its answers were not compared with a reference"]
    assert ratio(analysis)["verdict"] == "no verdict"


def test_few_failures_are_a_note() -> None:
    """One call in a hundred may fail."""
    analysis = edited(lambda v: fail(v, 2, "timeout"))
    assert cell(analysis, GRPC)["notes"] == ["6 of 912 calls failed: timeout"]
    assert ratio(analysis)["verdict"] == "no difference shown"


def test_unseen_counters_are_notes() -> None:
    """Against a host elsewhere the server's counts are not visible: said, and no obstacle."""

    def blind(one: Visit) -> None:
        one.server_requests = one.edge_connections = one.model_executions = None
        one.sent_bytes = one.received_bytes = 0

    found = cell(edited(blind), GRPC)
    assert len(found["notes"]) == 2
    assert found["marks"] == []
    assert found["edge_connections"] is found["calls_per_execution"] is found["sent_bytes_per_image"] is None


@pytest.mark.parametrize("blocks", [1, 2])
def test_few_blocks_have_numbers_and_no_verdict(blocks: int) -> None:
    """Below three blocks there are values without limits."""
    analysis = analyse(pair(blocks=blocks))
    found = ratio(analysis)
    assert found["verdict"] == "no verdict"
    assert "a verdict needs at least 3" in found["text"]
    assert found["value"] == pytest.approx(1, rel=0.05)
    assert found["low"] is found["high"] is cell(analysis)["p50_ms"]["low"] is None


def test_a_real_difference_is_a_verdict() -> None:
    """Slower is `higher` by p50 and `lower` by throughput, each in words with the interval."""
    analysis = analyse(pair(slower={GRPC: 1.3}))
    p50, throughput = ratio(analysis), ratio(analysis, "images_per_s")
    assert (p50["verdict"], throughput["verdict"]) == ("higher", "lower")
    assert p50["low"] < 1.3 < p50["high"]
    assert p50["p_value"] < 0.05
    assert (
        p50["text"]
        == f"onnx-grpc takes {p50['value']:.2f}x the time of onnx-http ({p50['low']:.2f} to {p50['high']:.2f})"
    )
    assert throughput["text"].startswith("onnx-grpc serves 0.7")
    assert (p50["kind"], p50["a"], p50["b"]) == ("protocol", cell_id(GRPC), cell_id(HTTP))
    assert any(why.startswith("compute: ") for why in p50["why"])


def test_equal_cells_have_no_difference() -> None:
    """The interval is said, and no reason is made up."""
    found = ratio(analyse(pair()))
    assert found["verdict"] == "no difference shown"
    assert found["text"] == f"no difference shown ({found['low']:.2f} to {found['high']:.2f})"
    assert found["why"] == []


def test_among_many_comparisons_some_differences_are_chance() -> None:
    """A difference that its own interval shows, and that so many comparisons would show by chance, is taken back."""
    found = analyse(pair(slower={GRPC: 1.3}))["ratios"]
    clear, doubtful = found[0] | {"p_value": 0.0001}, found[1] | {"p_value": 0.03}
    equals = [found[0] | {"verdict": "no difference shown", "p_value": 0.1 + 0.1 * i} for i in range(9)]
    unjudged = found[0] | {"verdict": "no verdict", "p_value": None}
    ratios = [clear, doubtful, *equals, unjudged]
    text = doubtful["text"]
    doubt_what_may_be_chance(ratios)
    assert (clear["verdict"], clear["text"]) == (found[0]["verdict"], found[0]["text"])
    assert doubtful["verdict"] == "no difference shown"
    assert doubtful["text"] == f"no difference shown: {text} may be chance among 11 comparisons"
    assert unjudged["verdict"] == "no verdict"


def test_pairs_share_every_factor() -> None:
    """The eight pairs of the study, each only within a batch, a number of users, a policy and a target."""
    run = synthetic_run(batches=(1, 8), users=(1,), calls=20)
    elsewhere = synthetic_run(batches=(1,), users=(1,), calls=20, target="direct")
    ratios = analyse(replace(run, cells=run.cells + elsewhere.cells))["ratios"]
    assert len(ratios) == 3 * 8 * 2
    kinds = [one["kind"] for one in ratios]
    assert [kinds.count(kind) for kind in ("protocol", "format", "engine")] == [12, 24, 12]
    for one in ratios:
        assert one["a"].split("/")[1:] == one["b"].split("/")[1:]


def test_a_route_against_itself() -> None:
    """Two names of one route are one pair, of the kind `same`, and hypotheses belong to fiveway alone."""
    names = {"onnx-http A": HTTP, "onnx-http B": HTTP}
    analysis = analyse(pair(study="aa", names=names))
    assert [(one["kind"], one["a_name"], one["b_name"]) for one in analysis["ratios"]] == [
        ("same", "onnx-http A", "onnx-http B")
    ] * 2
    assert ratio(analysis)["verdict"] == "no difference shown"
    assert analysis["hypotheses"] == []


def test_unequal_connections_are_no_protocol_difference() -> None:
    """Sixteen connections against one is not the protocol's doing, however large the difference."""

    def one_connection(one: Visit) -> None:
        one.connections = one.edge_connections = 1

    analysis = edited(one_connection, users=(16,), batches=(), slower={GRPC: 2.0})
    found = ratio(analysis)
    assert found["verdict"] == "no verdict"
    assert found["text"] == (
        "no verdict: unequal connections (1 against 16 in block 1): never called a protocol difference"
    )
    assert "connections per visit: 1 against 16" in found["why"]


def test_failures_explain_connections() -> None:
    """A call that fails may cost a connection."""

    def reconnect(one: Visit) -> None:
        fail(one, 2, "reset")
        one.connections = one.edge_connections = 3

    assert ratio(edited(reconnect))["verdict"] == "no difference shown"


@pytest.mark.parametrize("policy", [COLD, SHARED])
def test_cold_calls_have_a_connection_each(policy: str) -> None:
    """The slower of two cold cells makes fewer calls, so fewer connections: not unequal ones."""
    run = pair(policy=policy, slower={GRPC: 1.3})
    for one, visits in run.cells:
        if one.name == GRPC and policy == COLD:
            for v in visits:
                v.requests = v.connections = v.edge_connections = v.server_requests = 200
    assert ratio(analyse(run))["verdict"] == "higher"


def test_uncounted_connections_are_no_protocol_difference() -> None:
    """What was not counted cannot be called equal."""

    def uncounted(one: Visit) -> None:
        one.connections = one.edge_connections = None

    assert "connections were not counted" in ratio(edited(uncounted))["text"]


def test_a_missing_block_is_left_out_of_both() -> None:
    """A visit that measured nothing is a note; ratios use the blocks that both have."""
    run = pair(blocks=4, slower={GRPC: 1.3})
    run.cells[1][1][1].problem = "a load process died"
    analysis = analyse(run)
    assert cell(analysis, GRPC)["notes"] == ["block 2 measured nothing: a load process died"]
    assert cell(analysis, GRPC)["blocks"] == 3
    assert ratio(analysis)["verdict"] == "higher"
    run.cells[0][1][0].problem = "a load process died"
    assert "they have 2 blocks in common" in ratio(analyse(run))["text"]


def test_a_route_that_is_down() -> None:
    """Nothing was measured: marks and nulls, no verdict, no crash."""
    run = pair()
    for one in run.cells[1][1]:
        one.problem = "onnx-grpc: connection refused"
    analysis = analyse(run)
    found = cell(analysis, GRPC)
    assert found["p50_ms"] is found["images_per_s"] is found["mean_ms"] is found["split"] is found["client_cpu"] is None
    assert found["blocks"] == found["requests"] == 0
    down = ratio(analysis)
    assert (down["value"], down["low"], down["high"], down["verdict"]) == (None, None, None, "no verdict")
    assert down["text"].startswith("no verdict: onnx-grpc has too few calls")


def test_a_window_without_calls() -> None:
    """A visit whose steady window holds no call is said, and is no block."""
    run = pair(blocks=4)
    empty = visit(run.cells[0][0], 4, 1, np.array([]))
    run.cells[0][1][3] = empty
    found = cell(analyse(run))
    assert found["blocks"] == 3
    assert "block 4 has no call in its steady window" in found["notes"]
    assert found["marks"] == []


def test_an_open_loop_is_judged_by_latency_alone() -> None:
    """Its throughput is the schedule's; calls that began late mark the cell."""

    def late(one: Visit) -> None:
        one.missed = 5

    analysis = edited(late, rate=50.0)
    assert [one["measure"] for one in analysis["ratios"]] == ["p50_ms"]
    assert cell(analysis, GRPC)["marks"] == [
        "15 of 906 calls began late, all users were busy: more users or a lower rate"
    ]
    assert cell(edited(lambda v: setattr(v, "missed", 1), rate=50.0), GRPC)["notes"] == [
        "3 of 906 calls began late, all users were busy"
    ]


def test_the_published_method_has_values_and_no_verdict() -> None:
    """One block of 30 calls: the finding appears as a value, with its unequal connections, and is no verdict."""
    run = pair(method="published", policy=PUBLISHED, blocks=1, calls=30, users=(1, 16), slower={GRPC: 1.68})
    change(run, lambda _: True, lambda v: setattr(v, "server_requests", v.requests + 5))
    analysis = analyse(run)
    serial, together = ratio(analysis, users=1), ratio(analysis, users=16)
    assert serial["verdict"] == together["verdict"] == "no verdict"
    assert serial["text"] == (
        f"published method: onnx-grpc takes {serial['value']:.2f}x the time of onnx-http"
        " (30 calls, 1 block, no interval)"
    )
    assert together["text"].endswith("no interval); unequal connections (3 against 62 in block 1)")
    found = analysis["cells"][0]
    assert found["notes"] == ["the server counted 37 calls, the clients 32: as published, with the warm-up"]
    assert found["marks"] == ["1 block measured: a verdict needs at least 3"]


def test_published_throughput() -> None:
    """Serial: batch / p50. Concurrent: images over the wall time of all calls."""
    run = synthetic_run(
        names=(HTTP,), method="published", policy=PUBLISHED, blocks=1, calls=60, batches=(8,), users=(16,)
    )
    serial, together = analyse(run)["cells"]
    assert serial["images_per_s"] == {
        "value": pytest.approx(8000 / serial["p50_ms"]["value"]),
        "low": None,
        "high": None,
    }
    (one,) = run.cells[1][1]
    assert together["images_per_s"]["value"] == pytest.approx(60 / one.steady_s)


def test_the_published_method_with_blocks_is_judged_by_its_name() -> None:
    """Repeated, it has intervals and a verdict, which says whose method it is and that connections differ."""
    run = pair(method="published", policy=PUBLISHED, blocks=4, users=(16,), batches=(), slower={GRPC: 2.0})
    found = ratio(analyse(run))
    assert found["verdict"] == "higher"
    assert found["text"].startswith("published method: onnx-grpc takes 2.")
    assert "unequal connections" in found["text"]


def judged(run: Run) -> dict[str, dict[str, str]]:
    return {one["id"]: one for one in analyse(run)["hypotheses"]}


def fiveway(**options: Any) -> Run:
    chosen: dict[str, Any] = {"batches": (1, 32), "users": (1, 16), "visit_sd": 0.004, "calls": 200} | options
    return synthetic_run(**chosen)


def test_a_compute_bound_machine_reproduces_little() -> None:
    """Equal protocols: gRPC reduces nothing (H1), is not faster (H2), does not collapse (H3); JPEG loses (H4)."""
    found = judged(fiveway())
    assert {key: one["verdict"] for key, one in found.items()} == {
        "H1": "reproduced",
        "H2": "not reproduced",
        "H3": "not reproduced",
        "H4": "not reproduced",
    }
    for key in ("H1", "H2", "H3"):
        assert "the same within 10 %" in found[key]["text"]
    assert "At batch 32, one user" in found["H2"]["text"]
    assert "onnx-grpc 0.59x on A100-SXM4-80GB" in found["H2"]["text"]
    assert "At batch 1, 16 users" in found["H3"]["text"]
    assert "a protocol can change 10 % at most" in found["H1"]["cause"]
    assert "loses in 3 of 3 cells" in found["H4"]["text"]
    assert "bytes sent per image" in found["H4"]["cause"]


def test_the_published_findings_would_be_seen() -> None:
    """gRPC slower at batch 1 and at 16 users, faster at batch 32, JPEG in front: every finding is reproduced."""
    run = fiveway(slower={"onnx-http": 5.0, "trt-http": 5.0, "onnx-grpc": 6.0, "trt-grpc": 6.0})
    faster = fiveway(slower={"onnx-http": 6.0, "trt-http": 6.0, "onnx-grpc": 5.0, "trt-grpc": 5.0})
    other = {one.id: visits for one, visits in faster.cells if one.batch == 32}
    run.cells = [(one, other.get(one.id, visits)) for one, visits in run.cells]
    assert {one["verdict"] for one in judged(run).values()} == {"reproduced"}


def test_jpeg_loses_against_any_one_route() -> None:
    """A marked Triton route in front decides nothing, one behind it that is fit and still faster does."""
    slower = {"onnx-http": 1.2, "onnx-grpc": 4.0, "trt-http": 4.0, "trt-grpc": 4.0}
    run = change(
        fiveway(slower=slower | {"trt-http": 0.8}, batches=(1,), users=(1,)),
        lambda one: one.name == "trt-http",
        lambda v: setattr(v, "client_cpu", 0.9),
    )
    found = judged(run)["H4"]
    assert found["verdict"] == "not reproduced"
    assert "loses in 1 of 1 cells (batch 1, 1 user: onnx-http has 0." in found["text"]
    alone = change(
        fiveway(slower=slower | {"onnx-http": 4.0, "trt-http": 0.8}, batches=(1,), users=(1,)),
        lambda one: one.name == "trt-http",
        lambda v: setattr(v, "client_cpu", 0.9),
    )
    assert judged(alone)["H4"]["verdict"] == "cannot tell"


def test_a_faster_grpc_contradicts_h1_however_little() -> None:
    """Four per cent are within the 10 % of equivalence, and still a reduction."""
    found = judged(fiveway(slower={"onnx-grpc": 0.96, "trt-grpc": 0.96}, call_sd=0.02))
    assert found["H1"]["verdict"] == "not reproduced"
    assert "gRPC is faster" in found["H1"]["text"]
    assert found["H2"]["verdict"] == "not reproduced"


def test_pairs_that_disagree_cannot_tell() -> None:
    """One pair for and one against is no answer."""
    found = judged(fiveway(slower={"onnx-grpc": 1.3, "trt-grpc": 0.7}))
    assert [found[key]["verdict"] for key in ("H1", "H2", "H3")] == ["cannot tell"] * 3


def test_wide_intervals_cannot_tell() -> None:
    """No difference shown is not the same as no difference."""
    found = judged(fiveway(visit_sd=0.3))
    assert [found[key]["verdict"] for key in ("H1", "H2", "H3")] == ["cannot tell"] * 3
    assert "too wide" in found["H3"]["text"]


def test_a_subset_says_what_to_run() -> None:
    """Cells that were not measured decide nothing."""
    found = judged(synthetic_run(names=(HTTP,), calls=20, **ONE))
    assert {one["verdict"] for one in found.values()} == {"cannot tell"}
    assert all(one["text"].startswith("Not measured: run ") for one in found.values())
    serial = judged(pair())
    assert serial["H1"]["verdict"] == "reproduced"
    assert [serial[key]["verdict"] for key in ("H2", "H3", "H4")] == ["cannot tell"] * 3


def test_the_published_method_decides_no_hypothesis() -> None:
    """Its values are shown, and on which side of 1 they lie, but they are no evidence."""
    found = judged(fiveway(method="published", policy=PUBLISHED, blocks=1, calls=30, slower={"onnx-grpc": 1.5}))
    assert {one["verdict"] for one in found.values()} == {"cannot tell"}
    assert "of 2 values lie on the published side of 1" in found["H1"]["text"]


def test_hypotheses_without_a_split() -> None:
    """Without a time split the cause names what was counted."""
    run = change(fiveway(), lambda _: True, lambda v: setattr(v, "stages_ms", {}))
    found = judged(run)
    assert "Of a call" not in found["H1"]["cause"]
    assert found["H1"]["verdict"] == "reproduced"


def scaled(times: float, outside: float) -> dict[str, Any]:
    """An analysis whose Triton cells compute `times` as long and spend `outside` ms elsewhere."""
    cells = []
    for batch in (1, 8, 32):
        for name in (HTTP, GRPC):
            split = dict.fromkeys(PARTS, 0.0) | {"compute": 7.0 * batch * times, "network and edge": outside * batch}
            cells.append({"id": cell_id(name, batch), "split": split})
    cells.append({"id": cell_id("jpeg-http"), "split": dict.fromkeys(PARTS, 1.0)})
    return {"cells": cells}


def test_h5_compares_two_devices() -> None:
    """On the slower device the share outside compute is lower, higher, or nobody is slower; the order is no matter."""
    fast, slow = scaled(1.0, 1.0), scaled(2.0, 1.0)
    for a, b in ((fast, slow), (slow, fast)):
        assert hypotheses.judge_h5(a, b)["verdict"] == "reproduced"
    assert hypotheses.judge_h5(fast, scaled(2.0, 3.0))["verdict"] == "not reproduced"
    assert hypotheses.judge_h5(fast, scaled(1.05, 1.0))["verdict"] == "cannot tell"
    assert hypotheses.judge_h5(fast, {"cells": slow["cells"][:2]})["verdict"] == "cannot tell"
    named = hypotheses.judge_h5(fast, slow, ("A100", "L4"))
    assert "7 % of a call on L4 and 12 % on A100" in named["text"]
    assert "onnx-grpc 98.1 % on A100-SXM4-80GB and 98.6 % on RTX-4090" in named["text"]
    assert named["cause"].startswith(f"L4, {cell_id(HTTP)}: 93 % in compute, 7 % in network and edge; A100, ")


def test_published_rows_are_the_tables() -> None:
    """Five routes on two devices: p50 by batch, images per second by callers, and compute on the four Triton routes."""
    rows = published.rows()
    count = {measure: sum(row.measure == measure for row in rows) for measure in {row.measure for row in rows}}
    assert count == {"p50_ms": 50, "images_per_s": 30, "server_compute_ms": 40}
    assert published.devices() == ("A100-SXM4-80GB", "RTX-4090")
    assert published.value("A100-SXM4-80GB", "onnx-http", 32, 1, "p50_ms") == 5266.9
    assert published.value("RTX-4090", "onnx-grpc", 1, 16, "images_per_s") == 4.0
    assert published.value("A100-SXM4-80GB", "trt-http", 1, 1, "server_compute_ms") == 1657.75
    assert published.value("A100-SXM4-80GB", "jpeg-http", 2, 1, "p50_ms") is None
    assert {(row.measure, row.unit) for row in rows} == {
        ("p50_ms", "ms"),
        ("images_per_s", "images/s"),
        ("server_compute_ms", "ms"),
    }


def test_our_cells_stand_beside_the_published_ones() -> None:
    """A row per cell and published measure, with our interval; cells that the study has not are left out."""
    run = pair(batches=(1, 2, 8), users=(1, 16))
    cells = [one for one, _ in run.cells]
    rows = published.beside(analyse(run), cells)
    assert [(row["batch"], row["users"], row["measure"]) for row in rows if row["route"] == HTTP] == [
        (1, 1, "p50_ms"),
        (1, 1, "images_per_s"),
        (1, 1, "server_compute_ms"),
        (8, 1, "p50_ms"),
        (8, 1, "server_compute_ms"),
        (1, 16, "images_per_s"),
    ]
    first, _, compute, *_ = rows
    assert first["published"] == {"A100-SXM4-80GB": 208.7, "RTX-4090": 272.1}
    assert first["ours"]["low"] < median_ms(HTTP) < first["ours"]["high"]
    assert compute["ours"]["value"] == pytest.approx(0.9 * median_ms(HTTP), rel=0.05)
    assert published.beside({"cells": []}, [Cell(HTTP, HTTP)])[0]["ours"] is None
