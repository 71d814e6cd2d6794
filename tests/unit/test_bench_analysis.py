"""What follows from a run: cells, marks, ratios with verdicts, hypotheses, and the published rows beside them."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from bench import words
from bench.analysis.analysis import analyse, doubt_what_may_be_chance
from bench.measure.measured import GATE, Run, Visit
from bench.measure.split import PARTS
from bench.report import report
from bench.result import NO_DIFFERENCE, NO_VERDICT, SAME, Analysis, Judged, Ratio
from bench.studies import fiveway
from bench.studies.study import P50, PER_SECOND
from locustfiles.clients.policy import COLD, PUBLISHED, SHARED
from tests.unit.bench_runs import ENGINE, ENGINES, TENSOR_BYTES, cell_id, change, median_ms, synthetic_run, to, visit

ONE: dict[str, Any] = {"batches": (1,), "users": (1,)}
HTTP, GRPC = "onnx-http", "onnx-grpc"


def pair(**options: Any) -> Run:
    """onnx-http and onnx-grpc at batch 1 with one user, or what the options say."""
    chosen: dict[str, Any] = {"names": (HTTP, GRPC), "visit_sd": 0.005} | ONE | options
    return synthetic_run(**chosen)


def cell(analysis: Analysis, name: str = HTTP) -> Any:
    """The Found of a row's only cell."""
    (found,) = [one for one in analysis.cells if one.id.startswith(f"{name}/")]
    return found


def ratio(analysis: Analysis, measure: str = P50, users: int | None = None) -> Any:
    """The only Ratio of a measure."""
    (found,) = [one for one in analysis.ratios if one.measure == measure and users in (None, one.users)]
    return found


def edited(edit: Callable[[Visit], None], name: str = GRPC, **options: Any) -> Analysis:
    """The analysis of a pair after an edit of every visit to one of its cells."""
    return analyse(change(pair(**options), lambda one: one.name == name, edit))


def fail(failures: int, **more: Any) -> Callable[[Visit], None]:
    return to(failures=failures, errors={"503: no server": failures}, **more)


def test_cells_have_the_numbers_that_were_drawn() -> None:
    """Percentiles, throughput, bytes, connections and the split of a cell are those of its distribution."""
    found = cell(analyse(pair(calls=1000), price_per_hour=2.0))
    median = median_ms(HTTP)
    assert found.p50_ms.low < median < found.p50_ms.high
    assert found.p90_ms.value == pytest.approx(median * np.exp(0.1 * 1.2816), rel=0.02)
    assert found.p99_ms.value == pytest.approx(median * np.exp(0.1 * 2.3263), rel=0.04)
    assert found.images_per_s.value == pytest.approx(1000 / found.mean_ms, rel=0.01)
    assert (found.requests, found.failures, found.blocks) == (3 * 1002, 0, 3)
    assert (found.connections, found.edge_connections, found.client_cpu) == (1, 1, 0.12)
    assert found.sent_bytes_per_image == pytest.approx(TENSOR_BYTES * 1.002, rel=1e-6)
    assert found.calls_per_execution == 1
    assert tuple(found.split) == PARTS
    assert sum(found.split.values()) == pytest.approx(found.mean_ms + 0.4)
    assert found.marks == found.notes == []
    cost, throughput = found.cost_per_million_images, found.images_per_s
    assert cost.value == pytest.approx(2 / 3600 / throughput.value * 1e6)
    assert cost.high == pytest.approx(2 / 3600 / throughput.low * 1e6)
    assert cost.low < cost.value < cost.high


def test_a_row_by_another_client_stands_for_its_route() -> None:
    """What differs is the protocol and the client then, and no pair is judged as the protocol's."""
    run = pair()
    renamed = {HTTP: "onnx-http-requests", GRPC: "onnx-grpc-grpcio"}
    for i, (one, visits) in enumerate(run.cells):
        run.cells[i] = replace(one, name=renamed[one.name], route=renamed[one.name]), visits
    run.parity = {renamed[name]: found for name, found in run.parity.items()}
    judged = {(one.kind, one.a_name, one.b_name) for one in analyse(run).ratios}
    assert judged == {("protocol and client", "onnx-grpc-grpcio", "onnx-http-requests")}


@pytest.mark.parametrize(
    ("fact", "other", "why"),
    [
        ("threads", 1, "compute threads: 2 against 1"),
        ("precision", "FP16", "precision: FP32 against FP16"),
    ],
)
def test_unequal_engines_are_no_difference_of_format(fact: str, other: Any, why: str) -> None:
    """The factor is named, and the ratio is there. Two models of one server with the same are compared as they are."""
    run = pair(names=(HTTP, GRPC, "jpeg-http"))
    run.environment = {"engines": ENGINES | {"jpeg-http": ENGINE | {fact: other}}}
    ratios = [one for one in analyse(run).ratios if one.main]
    found = {one.kind: one for one in ratios if one.kind == "protocol" or one.a_name == HTTP}
    assert found["format"].verdict == NO_VERDICT
    assert f"{why}: never called a format difference" in found["format"].text
    assert found["format"].why[0] == why
    assert found["format"].low
    assert found["protocol"].verdict != NO_VERDICT
    run.environment = {}
    (unknown,) = (one for one in analyse(run).ratios if one.main and one.a_name == HTTP)
    assert "are not known: never called a format difference" in unknown.text


def test_a_call_costs_cpu_time() -> None:
    """Per image: of the client, the edge and the server behind it, and of all; ratios of it, and with the encoding."""
    analysis = analyse(pair(batches=(8,), users=()))
    found = cell(analysis)
    parts = {part: interval.value for part, interval in found.cpu_ms.items()}
    assert parts["client"] == pytest.approx(0.5 / 8)
    assert parts["edge"] == pytest.approx(0.3 / 8)
    assert parts["servers"] == parts["triton"] == pytest.approx(found.mean_ms / 8, rel=0.01)
    assert parts["all"] == pytest.approx(parts["client"] + parts["edge"] + parts["servers"], rel=1e-3)
    assert "torchserve" not in parts
    assert analysis.idle_cpu["torchserve"] == pytest.approx(2 / 1.1)
    main: Any = next(one for one in analysis.ratios if one.main)
    assert set(main.cpu) == {"all", "client", "edge", "servers"}
    assert main.cpu["client"].value == pytest.approx(1)
    assert abs(np.log(main.encoded.value)) < abs(np.log(main.value))  # both encode for as long
    assert not any(one.cpu or one.encoded for one in analysis.ratios if not one.main)
    assert "CPU time" in report.said(main)
    on_gpu = cell(edited(to(energy_j=24.0, gpu_utilization=0.5), batches=(8,), users=()), GRPC)
    assert on_gpu.energy_j.value == pytest.approx(24 / 8 / (on_gpu.requests / on_gpu.blocks))
    assert (on_gpu.gpu_utilization, found.energy_j) == (0.5, None)
    # A counter that could not be read, or began anew.
    without = edited(to(cpu_ms={"client": 5.0}), batches=(8,), users=())
    assert cell(without, GRPC).cpu_ms == {"client": cell(without, GRPC).cpu_ms["client"]}
    assert set(next(one for one in without.ratios if one.main).cpu) == {"client"}


def test_percentiles_need_calls() -> None:
    """p50 needs 10 calls, p90 100, p99 1,000: over all blocks together. Nothing is left to chance, and a subset of the
    cells has the same numbers."""
    first = analyse(pair())
    assert first == analyse(pair())
    assert analyse(replace(pair(), cells=pair().cells[:1])).cells == first.cells[:1]
    few, some, many = (cell(analyse(pair(calls=calls))) for calls in (3, 34, 334))
    assert few.p50_ms is few.p90_ms is some.p99_ms is None
    assert any("a p50 needs" in mark for mark in few.marks)
    assert some.p90_ms
    assert many.p99_ms


@pytest.mark.parametrize(
    ("edit", "mark"),
    [
        (to(client_cpu=0.41), "41 % of a core"),
        (to(server_requests=812), "block 1: the server counted 812"),
        (to(edge_connections=7), "block 1: the edge accepted 7"),
        (fail(9), "27 of 933 calls failed: 503: no server"),
    ],
)
def test_a_marked_cell_gets_no_verdict(edit: Callable[[Visit], None], mark: str) -> None:
    """What speaks against one of two cells stands in its marks, and its ratios have numbers but no verdict."""
    analysis = edited(edit)
    marks = cell(analysis, GRPC).marks
    assert len(marks) == 1
    assert mark in marks[0]
    found = ratio(analysis)
    assert (found.verdict, found.text) == (
        NO_VERDICT,
        f"no verdict on onnx-grpc against onnx-http: onnx-grpc: {marks[0]}",
    )
    assert found.low < found.value < found.high
    assert cell(analysis).marks == []


@pytest.mark.parametrize(
    ("edit", "notes"),
    [
        (to(client_cpu=GATE), []),
        (fail(2), ["6 of 912 calls failed"]),
        (fail(2, connections=3, edge_connections=3), ["6 of 912 calls failed"]),  # a failed call may cost a connection
        (to(server_requests=None, edge_connections=None, model_executions=None, sent_bytes=0), ["server's", "edge's"]),
    ],
)
def test_what_is_no_obstacle_is_a_note(edit: Callable[[Visit], None], notes: list[str]) -> None:
    """A load process at the gate passes, one call in a hundred may fail, and an unseen counter stays unknown."""
    analysis = edited(edit)
    found = cell(analysis, GRPC)
    assert all(word in note for word, note in zip(notes, found.notes, strict=True))
    assert ratio(analysis).verdict == SAME
    if len(notes) == 2:
        assert found.edge_connections is found.calls_per_execution is found.sent_bytes_per_image is None


def test_a_route_that_disagrees_gets_no_verdict() -> None:
    """Nor does one pass unseen whose answers were never compared."""
    run = pair()
    run.parity[GRPC] = {"agrees": False, "cosine": 0.4, "why": "cosine 0.40 to onnx-http"}
    del run.parity[HTTP]
    analysis = analyse(run)
    assert "cosine 0.40" in cell(analysis, GRPC).marks[0]
    assert "not compared" in cell(analysis).notes[0]
    assert ratio(analysis).verdict == NO_VERDICT


def test_answers_that_precision_alone_explains_are_a_factor() -> None:
    """Not a mark: routes of that engine are compared with each other, and with another engine the factor is named."""
    run = pair(names=("onnx-http", "onnx-grpc", "trt-http", "trt-grpc", "jpeg-http"), slower={"trt-grpc": 1.3})
    factor = "precision FP16 against FP32"
    apart = {"agrees": False, "cosine": 0.99, "why": "cosine to jpeg-http is 0.99", "factor": factor}
    run.parity |= {"trt-http": apart, "trt-grpc": apart}
    run.environment = {"engines": ENGINES | {"trt": ENGINE | {"precision": "FP16"}}}
    analysis = analyse(run)
    assert not any(one.marks for one in analysis.cells)
    assert f"{factor}: its answers are not the reference's" in cell(analysis, "trt-http").notes[0]
    found = {(one.kind, one.a_name, one.b_name): one for one in analysis.ratios if one.main}
    assert found["protocol", "trt-grpc", "trt-http"].verdict == "higher"
    assert found["protocol", "onnx-grpc", "onnx-http"].verdict == SAME
    assert "precision: FP16 against FP32: never called" in found["format", "trt-http", "jpeg-http"].text
    (other,) = (one for one in found.values() if (one.a_name, one.b_name) == ("trt-http", "onnx-http"))
    assert other.verdict == NO_VERDICT
    assert f"{factor}: their answers differ too" in other.text


def test_a_real_difference_is_a_verdict() -> None:
    """Slower is `higher` by p50 and `lower` by throughput, each in words with the interval; equals have no reason. Two
    names of one route are one pair of the kind `same`."""
    analysis = analyse(pair(slower={GRPC: 1.3}))
    p50, throughput = ratio(analysis), ratio(analysis, PER_SECOND)
    assert (p50.verdict, throughput.verdict) == ("higher", "lower")
    assert p50.low < 1.3 < p50.high
    assert p50.p_value < 0.05
    slower, least, most = (f"{100 * (limit - 1):.0f}" for limit in (p50.value, p50.low, p50.high))
    assert p50.text == f"onnx-grpc is {slower} % slower than onnx-http ({least} to {most} %)"
    assert " % slower than onnx-http (" in throughput.text
    assert (p50.kind, p50.a, p50.b) == ("protocol", cell_id(GRPC), cell_id(HTTP))
    assert any(why.startswith("compute: ") for why in p50.why)
    equal = ratio(analyse(pair(study="aa", names={"onnx-http A": HTTP, "onnx-http B": HTTP})))
    assert (equal.kind, equal.verdict, equal.why) == ("same", SAME, [])
    assert equal.text.startswith("onnx-http A and onnx-http B are the same within 10 % (")


def test_among_many_comparisons_some_differences_are_chance() -> None:
    """A difference that its own interval shows, and that so many comparisons would show by chance, is taken back.
    Neither the large effects of another question, nor the same evidence as throughput, make it count."""
    found, inverse = analyse(pair(slower={GRPC: 1.3})).ratios

    def one(p_value: float | None, source: Ratio = found, **values: Any) -> Ratio:
        return msgspec.structs.replace(source, p_value=p_value, **values)

    clear, doubtful, unjudged = one(0.0001), one(0.03, text=f"{found.text}, +1 ms"), one(None, verdict=NO_VERDICT)
    equals = [one(0.1 + 0.1 * i, verdict=NO_DIFFERENCE) for i in range(9)]
    doubt_what_may_be_chance([clear, doubtful, *equals, unjudged])
    assert (clear.verdict, clear.text, unjudged.verdict) == (found.verdict, found.text, NO_VERDICT)
    assert doubtful.verdict == NO_DIFFERENCE
    assert doubtful.text.endswith(" % slower, which may be chance), +1 ms")
    huge, twice = [one(1e-6, kind="format") for _ in range(9)], [one(p_value, inverse) for p_value in (0.03, 1e-6)]
    doubtful = one(0.03)
    doubt_what_may_be_chance([doubtful, one(0.3), one(0.6), *huge, *twice])
    assert doubtful.verdict == twice[0].verdict == NO_DIFFERENCE
    assert {ratio.verdict for ratio in huge} == {"higher"}


def test_a_question_has_one_ratio_over_its_cells() -> None:
    """The geometric mean of its ratios of times, each cell once; its interval is narrower than theirs; cells of another
    setting and cells without a verdict are left out."""
    options: dict[str, Any] = {"batches": (1, 8, 32), "users": (1, 8), "slower": slower(1.0, 1.3), "visit_sd": 0.02}
    run, other, elsewhere = (synthetic_run(target=target, **options) for target in ("edge", "edge", "direct"))
    mute = change(other, lambda one: (one.route, one.batch) == (GRPC, 32), fail(400))
    for whole, count in ((run, 8), (mute, 7)):
        analysis = analyse(replace(whole, cells=whole.cells + elsewhere.cells))
        pooled: Any = next(one for one in analysis.pooled if one.kind == "protocol")
        times: list[Any] = [
            one.time
            for one in analysis.ratios
            if (one.kind, one.target) == ("protocol", "edge") and one.main and one.verdict != NO_VERDICT
        ]
        assert pooled.ratios == len(times) == count
        assert pooled.value == pytest.approx(np.exp(np.mean(np.log([time.value for time in times]))))
        assert pooled.low < 1.3 < pooled.high
        assert pooled.high / pooled.low < min(time.high / time.low for time in times)
        assert words.between("gRPC", "HTTP", pooled).startswith("gRPC is 3")


def test_pairs_share_every_factor() -> None:
    """The eight pairs of the study, each only within a batch, a number of users, a policy and a target; and each row
    through the edge with itself past it."""
    run = synthetic_run(batches=(1, 8), users=(1,), calls=20)
    elsewhere = synthetic_run(batches=(1,), users=(1,), calls=20, target="direct")
    ratios = analyse(replace(run, cells=run.cells + elsewhere.cells)).ratios
    kinds = [one.kind for one in ratios]
    assert [kinds.count(kind) for kind in ("protocol", "format", "engine", "edge")] == [12, 24, 12, 10]
    for one in ratios:
        a, b = (id_.split("/") for id_ in (one.a, one.b))
        assert (a[1:] == b[1:]) if one.kind != "edge" else (a[:4] == b[:4] and (a[4], b[4]) == ("edge", "direct"))


def test_the_edge_s_cost_is_a_ratio_and_milliseconds() -> None:
    """With an interval each; one ratio over all rows."""
    edge, direct = (synthetic_run(target=target, visit_sd=0.01, **ONE) for target in ("edge", "direct"))
    for one, visits in edge.cells:
        slow = dict(synthetic_run(visit_sd=0.01, slower={one.route: 1.2}, **ONE).cells)[one]
        visits[:] = slow
    analysis = analyse(replace(edge, cells=edge.cells + direct.cells))
    found = next(one for one in analysis.ratios if (one.kind, one.a_name) == ("edge", "onnx-http through Envoy"))
    assert "onnx-http through Envoy is 2" in found.text
    value, low, high = map(float, re.findall(r"([+]\d+\.\d+)", found.text))
    assert low < 0.2 * median_ms(HTTP) < high
    assert value == pytest.approx(0.2 * median_ms(HTTP), rel=0.2)
    (pooled,) = [one for one in analysis.pooled if one.kind == "edge"]
    assert (pooled.ratios, pooled.verdict) == (5, "higher")


@pytest.mark.parametrize(
    ("edit", "users", "said"),
    [
        (to(connections=1, edge_connections=1), 16, "1 against 16"),
        (to(connections=None, edge_connections=None), 1, "not counted"),
    ],
)
def test_unequal_connections_are_no_protocol_difference(edit: Callable[[Visit], None], users: int, said: str) -> None:
    """Sixteen connections against one is not the protocol's doing, however large the difference; nor are uncounted."""
    found = ratio(edited(edit, users=(users,), batches=(), slower={GRPC: 2.0}))
    assert found.verdict == NO_VERDICT
    assert said in found.text


def test_cold_calls_have_a_connection_each() -> None:
    """The slower of two cold cells makes fewer calls, so fewer connections: not unequal ones."""
    fewer = to(requests=200, connections=200, edge_connections=200, server_requests=200)
    for edit, policy in ((fewer, COLD), (to(), SHARED)):
        assert ratio(edited(edit, policy=policy, slower={GRPC: 1.3})).verdict == "higher"


def test_a_missing_block_is_left_out_of_both() -> None:
    """A visit that measured nothing, or whose window has no call, is a note; ratios use the blocks that both have.
    Below three blocks there are values without limits and no verdict."""
    run = pair(blocks=4, slower={GRPC: 1.3})
    run.cells[1][1][1].problem = "a load process died"
    analysis = analyse(run)
    assert "block 2 measured nothing" in cell(analysis, GRPC).notes[0]
    assert (cell(analysis, GRPC).blocks, ratio(analysis).verdict) == (3, "higher")
    run.cells[0][1][0] = visit(run.cells[0][0], 1, 1, np.array([]))
    analysis = analyse(run)
    assert "block 1 has no call in its steady window" in cell(analysis).notes
    found = ratio(analysis)
    assert "2 blocks in common" in found.text
    assert (found.verdict, found.low, found.high) == (NO_VERDICT, None, None)
    assert found.value == pytest.approx(1.3, rel=0.05)


def test_a_route_that_is_down() -> None:
    """Nothing was measured: marks and nulls, no verdict, no crash."""
    analysis = edited(to(problem="onnx-grpc: connection refused"))
    found, down = cell(analysis, GRPC), ratio(analysis)
    assert not any(found[name] for name in ("p50_ms", "images_per_s", "mean_ms", "split", "blocks", "requests"))
    assert (down.value, down.low, down.high, down.verdict) == (None, None, None, NO_VERDICT)
    assert "too few calls" in down.text


def test_an_open_loop_is_judged_by_latency_alone() -> None:
    """Its throughput is the schedule's; calls that began late mark the cell, few of them are a note."""
    analysis = edited(to(missed=5), rate=50.0)
    assert [one.measure for one in analysis.ratios] == [P50]
    assert "15 of 906 calls began late" in cell(analysis, GRPC).marks[0]
    assert "3 of 906 calls began late" in cell(edited(to(missed=1), rate=50.0), GRPC).notes[0]
    (mark,) = cell(edited(to(unanswered=5, oldest_unanswered_s=0.25), rate=50.0), GRPC).marks
    assert "0 of 921 calls began late, all users were busy, and 15 never (the oldest had waited 0.2 s)" in mark


def test_the_published_method_has_values_and_no_verdict() -> None:
    """One block of 30 calls: the finding appears as a value, with its unequal connections, and is no verdict; repeated
    it is judged by its name. Serial throughput is batch / p50, concurrent throughput images over the wall time."""
    run = pair(method="published", policy=PUBLISHED, blocks=1, calls=30, users=(1, 16), slower={GRPC: 1.68})
    change(run, lambda _: True, lambda v: to(server_requests=v.requests + 5)(v))
    analysis = analyse(run)
    serial, together = ratio(analysis, users=1), ratio(analysis, users=16)
    assert serial.verdict == together.verdict == NO_VERDICT
    assert "1 block, no interval" in serial.text
    assert "unequal connections (3 against 62" in together.text
    assert "with the warm-up" in analysis.cells[0].notes[0]
    assert len(analysis.cells[0].marks) == 1
    one, several = (found for found in analysis.cells if found.id.startswith(HTTP))
    assert one["images_per_s"]["value"] == pytest.approx(1000 / one["p50_ms"]["value"])
    assert several["images_per_s"]["value"] == pytest.approx(30 / run.cells[2][1][0].steady_s)
    many = pair(method="published", policy=PUBLISHED, blocks=4, users=(16,), batches=(), slower={GRPC: 2.0})
    found = ratio(analyse(many))
    assert (found.verdict, found.text[:16]) == ("higher", "published method")


def judged(run: Run) -> dict[str, Judged]:
    return {one.id: one for one in analyse(run).hypotheses}


def verdicts(run: Run) -> str:
    """Of H1 to H4: + reproduced, - not reproduced, ? inconclusive."""
    signs = {"reproduced": "+", "not reproduced": "-", "inconclusive": "?"}
    return "".join(signs[one.verdict] for one in judged(run).values())


def study(**options: Any) -> Run:
    chosen: dict[str, Any] = {"batches": (1, 32), "users": (1, 16), "visit_sd": 0.004, "calls": 200} | options
    return synthetic_run(**chosen)


def slower(http: float, grpc: float) -> dict[str, float]:
    return {"onnx-http": http, "trt-http": http, "onnx-grpc": grpc, "trt-grpc": grpc}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "+---"),  # equal: gRPC reduces nothing, is not faster, does not collapse; JPEG loses
        ({"slower": slower(1.0, 0.96), "call_sd": 0.02}, "----"),  # 4 % are the same within 10 %, and still a reduction
        ({"slower": {"onnx-grpc": 1.3, "trt-grpc": 0.7}}, "???-"),  # one pair for, one against
        ({"visit_sd": 0.3}, "???-"),  # no difference shown is not the same
        ({"method": "published", "policy": PUBLISHED, "blocks": 1, "calls": 30}, "????"),  # values, no evidence
        ({"names": (HTTP,), "calls": 20, **ONE}, "????"),  # not measured
        ({"names": (HTTP, GRPC), **ONE}, "+???"),
    ],
)
def test_the_hypotheses_are_judged(options: dict[str, Any], expected: str) -> None:
    """By what a pair shows of each: see the claims of bench/studies/fiveway.py."""
    assert verdicts(study(**options)) == expected


def test_the_published_findings_would_be_seen() -> None:
    """gRPC slower at batch 1 and at 16 users, faster at batch 32, JPEG in front: every finding is reproduced."""
    run, faster = study(slower=slower(5.0, 6.0)), study(slower=slower(6.0, 5.0))
    other = {one.id: visits for one, visits in faster.cells if one.batch == 32}
    run.cells = [(one, other.get(one.id, visits)) for one, visits in run.cells]
    assert verdicts(run) == "++++"


def test_a_verdict_says_its_numbers_and_its_cause() -> None:
    """The cells it is about, where the time goes and which measured factors differ."""
    found = judged(study())
    assert "1 caller, batch 32: onnx-grpc and " in found["H2"].text
    assert "10 % at most" in found["H1"].cause
    assert "bytes sent per image" in found["H4"].cause
    blind = judged(change(study(), lambda _: True, to(stages_ms={})))
    assert "Of a call" not in blind["H1"].cause
    assert blind["H1"].verdict == "reproduced"


@pytest.mark.parametrize(("onnx", "verdict"), [(1.2, "not reproduced"), (4.0, "inconclusive")])
def test_jpeg_loses_against_any_one_route(onnx: float, verdict: str) -> None:
    """A marked Triton route in front decides nothing, one behind it that is fit and still faster does."""
    times = {"onnx-http": onnx, "onnx-grpc": 4.0, "trt-http": 0.8, "trt-grpc": 4.0}
    run = change(study(slower=times, **ONE), lambda one: one.name == "trt-http", to(client_cpu=0.9))
    found = judged(run)["H4"]
    assert found.verdict == verdict
    if verdict == "not reproduced":
        assert found.text.startswith("1 of 4 ratios contradict the finding, among them:\n1 caller: onnx-http is ")


def test_only_the_first_setting_is_judged() -> None:
    """A second target says nothing of a hypothesis."""
    run, other = study(), study(target="direct", slower=slower(1.0, 2.0))
    assert verdicts(replace(run, cells=run.cells + other.cells)) == verdicts(run)


def scaled(times: float, outside: float) -> Analysis:
    """An analysis whose Triton cells compute `times` as long and spend `outside` ms elsewhere."""
    template = cell(analyse(pair(calls=20)))
    cells = [msgspec.structs.replace(template, id=cell_id("jpeg-http"), split=dict.fromkeys(PARTS, 1.0))]
    for batch in (1, 8, 32):
        split = dict.fromkeys(PARTS, 0.0) | {"compute": 7.0 * batch * times, "network and edge": outside * batch}
        cells += [msgspec.structs.replace(template, id=cell_id(name, batch), split=split) for name in (HTTP, GRPC)]
    return Analysis(0.95, cells, [], [])


def test_h5_compares_two_devices() -> None:
    """On the slower device the share outside compute is lower or higher, or neither device is slower, in either
    order."""
    fast, slow = scaled(1.0, 1.0), scaled(2.0, 1.0)
    for a, b in ((fast, slow), (slow, fast)):
        assert fiveway.across(a, b).verdict == "reproduced"
    assert fiveway.across(fast, scaled(2.0, 3.0)).verdict == "not reproduced"
    assert fiveway.across(fast, scaled(1.05, 1.0)).verdict == "inconclusive"
    assert fiveway.across(fast, Analysis(0.95, slow.cells[:3], [], [])).verdict == "inconclusive"
    assert "7 % of a call on L4 and 12 % on A100" in fiveway.across(fast, slow, ("A100", "L4")).text
