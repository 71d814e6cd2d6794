"""Comparing two results: unlike things are refused factor by factor, like ones are put side by side, not judged."""

import json
import re
from pathlib import Path

import pytest

from bench.analysis.statistics import Estimate
from bench.report.compare import (
    ALIKE,
    ALLOWED,
    DRIFT,
    FACTORS,
    REFUSED,
    UNREADABLE,
    Comparison,
    InTurn,
    compare,
    in_turn,
    main,
)
from bench.report.results import ResultError
from bench.result import Interval
from tests.unit.bench_runs import SERVICE, edited, plain, result, typed

A100 = {"name": "A100", "driver": "550", "count": 1}
CPUS_OF_TRITON = {"edge": SERVICE, "triton": SERVICE | {"cpus": 1.0, "cpuset": "0"}}
NO_LIMIT = {"cpus": None, "memory_bytes": 1 << 30}
ON_THE_CPU = {"CPUExecutionProvider": 57}
# Factor -> its place in a result, another value, and what is said of both.
CHANGES: dict[str, tuple[str, object, str]] = {
    "study": ("study", "aa", "fiveway against aa"),
    "method": ("method", "published", "fair against published"),
    "machine": ("environment/machine", "other-8c-32g", "synthetic-cpu-2c-24g against other-8c-32g"),
    "kernel": ("environment/kernel", "6.2.0", "6.1.0 against 6.2.0"),
    "accelerator": ("environment/accelerator", "gpu", "cpu against gpu"),
    "device": ("environment/device", A100, "no GPU against 1 x A100"),
    "driver": ("environment/device", A100, "no GPU against 550"),
    "limits": ("environment/services", CPUS_OF_TRITON, "against triton 1 cores (CPU set 0)"),
    "client-limits": ("environment/client_limits", NO_LIMIT, "against no CPU limit"),
    "model": ("environment/model/name", "densenet161", "efficientnet_lite0 against densenet161"),
    "checksum": ("environment/model/checksum", None, "against unknown"),
    "model-config": ("environment/model/config_sha256", "ee", "against ee"),
    "weights": ("environment/model/weights", "random", "real against random"),
    "providers": ("environment/providers/efficientnet_lite0_trt", ON_THE_CPU, "_trt CPUExecutionProvider"),
    "engines": ("environment/engines/onnx/threads", 1, "against onnx ONNX Runtime, cpu, FP32, 1 thread,"),
    "triton": ("environment/triton", "2.60.0", "2.51.0 against 2.60.0"),
    "envoy": ("environment/envoy/version", "1.41.0", "1.40.0 against 1.41.0"),
    "envoy-config": ("environment/envoy/config_sha256", "ee", "against ee"),
    "traces": ("environment/traces", True, "off against on"),
    "clients": ("environment/versions/grpcio", "1.90.0", "grpcio 1.85.1 against grpcio 1.90.0"),
}


def cells(text: object) -> list[str]:
    """The lines of a comparison that are about a cell."""
    return re.findall(r"^\S+/b\d+/.*b/a.*$", str(text), re.M)


@pytest.mark.parametrize("factor", CHANGES)
def test_a_factor_that_differs_is_refused_unless_it_is_allowed(factor: str) -> None:
    """One line names the factor and both values, and nothing is compared; allowed, it is said, and cells are. The
    claim that is about two devices is judged where these differ."""
    assert set(CHANGES) == set(FACTORS), "a factor that is added needs its line in the table above"
    path, value, said = CHANGES[factor]
    other = typed(edited(path, value))
    refused = compare(result(), other)
    assert set(refused.refused) == ({"device", "driver"} if value is A100 else {factor})
    line = f"{factor}: {' against '.join(refused.refused[factor])}"
    assert said in line
    assert f"  {line}\n" in str(refused)
    assert not cells(refused)
    allowed = compare(result(), other, {factor, "device", "driver"})
    assert not allowed.refused
    assert cells(allowed)
    assert f"Allowed to differ: {line}" in str(allowed)
    assert ("\nH5 (" in str(allowed)) == (factor in ("device", "driver", "machine"))


@pytest.mark.parametrize(
    ("field", "value"), [("photo", "720x1280"), ("policy", "cold"), ("target", "direct"), ("rate", 50.0)]
)
def test_cells_that_share_no_value_of_a_factor_are_refused(field: str, value: object) -> None:
    """Unless it is allowed: then the cells are matched without regard to it."""
    other = result(**{field: value})
    refused = compare(result(), other).refused
    assert (list(refused), refused[field][1]) == ([field], str(value))
    assert len(cells(compare(result(), other, {field}))) == len(cells(compare(result(), result())))


def test_all_differences_are_named_at_once() -> None:
    """A reader does not find them one by one; two unknown values are not equal ones; commits are named only. A slip in
    the name of a factor does not allow nothing silently."""
    other = result()
    other.environment.triton, other.environment.kernel, other.environment.commit = "2.60.0", "6.2.0", "fedcba"
    assert list(compare(result(), other).refused) == ["kernel", "triton"]
    assert list(compare(result(), other, {"kernel"}).refused) == ["triton"]
    other.environment.model.checksum = None
    assert "checksum is unknown in both" in str(compare(other, other))
    assert "against fedcba" in str(compare(result(), other, {"kernel", "triton", "checksum"}))
    with pytest.raises(ResultError, match=r"no factor devise: choose from study, .*rate"):
        compare(result(), result(), {"devise"})


def test_alike_results_are_put_side_by_side_and_not_judged() -> None:
    """b / a of p50, throughput and CPU time for every cell that both have, both intervals, marks of both, and the word
    drift."""
    other = result()
    first, second = other.analysis.cells[:2]
    assert first.p50_ms
    first.p50_ms, first.marks, second.p50_ms = first.p50_ms.times(2), ["the client was busy"], Interval(8.0)
    text = str(compare(result(), other))
    lines = cells(text)
    assert len(lines) == 3 * len(other.cells)
    assert lines[0].startswith(f"{first.id}  p50, ms: ")
    assert "b/a 2.00, intervals do not overlap; marked: the client was busy" in lines[0]
    assert lines[2].startswith(f"{first.id}  CPU, ms/image: ")
    assert ", no interval" in lines[3]
    assert all("b/a 1.00, intervals overlap" in line for line in lines[4:])
    assert DRIFT in text
    assert text.count("marked: the client was busy") == 3
    assert not any(word in text for word in ("faster", "slower", "better", "worse"))


def test_pairs_in_turn_give_an_interval() -> None:
    """b / a of each cell and of all together: what drifts from pair to pair is in both sides. An interval needs three
    pairs, and they have to be alike."""
    pairs = [(result(), result()) for _ in range(3)]
    for drift, (a, b) in zip((1.0, 1.1, 1.3), pairs, strict=True):
        for one, times in ((a, drift), (b, drift * 2 * drift**0.1)):
            for cell in one.analysis.cells:
                cell.p50_ms = cell.p50_ms and cell.p50_ms.times(times)
        b.environment.traces = True
    found = in_turn(pairs, {"traces"})
    assert isinstance(found, InTurn)
    first = pairs[0][0].cells[0].id
    ratio = Estimate({turn: 2 * drift**0.1 for turn, drift in enumerate((1.0, 1.1, 1.3))}).interval
    said = str(found).splitlines()
    assert said[:2] == [
        "3 pairs in turn: b/a, with its 95 % interval by the pairs.",
        f"{ALLOWED}: traces: off against on",
    ]
    assert {f"{first}  p50, ms: {ratio}", f"all cells  p50, ms: {ratio}"} < set(said)
    assert f"{first}  CPU, ms/image: 1.00 (1.00–1.00)" in said
    kept = json.loads(found.json)
    assert (kept["kind"], kept["pairs"], kept["differ"]) == ("in-turn", 3, {"traces": ["off", "on"]})
    assert Interval(**kept["ratios"]["p50, ms"][first]) == ratio
    refused = in_turn(pairs)
    assert isinstance(refused, Comparison)
    assert refused.refused == {"traces": ("off", "on")}
    pairs[2][0].environment.kernel = pairs[2][1].environment.kernel = "6.2.0"
    refused = in_turn(pairs, {"traces"})
    assert isinstance(refused, Comparison)
    assert list(refused.refused) == ["kernel"]


def test_only_common_cells_are_compared() -> None:
    """A run of fewer cells is compared where it can be; what an allowed factor makes ambiguous is left out."""
    other = result(names=["onnx-http"], batches=(8,), users=())
    found = cells(compare(result(), other))
    assert {line.partition(" ")[0] for line in found} == {"onnx-http/b8/c1/pooled/edge/224x224"}
    assert "have no cell in common" in str(compare(result(names=["jpeg-http"]), other))
    both, cold = result(), result(policy="cold")
    both.cells += cold.cells
    both.analysis.cells += cold.analysis.cells
    assert not cells(compare(both, result(policy="shared"), {"policy"}))


def test_exit_status_says_alike_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 with the comparison on stdout; 2 with the differing factors on stderr, and for a bad option; 1 and a line where
    there is no result."""
    for name, content in {"a": plain(), "b": plain(), "c": edited("environment/triton", "2.60.0")}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(content))
    a, b, c = (str(tmp_path / name) for name in "abc")
    assert main([a, b]) == ALIKE == 0
    assert DRIFT in capsys.readouterr().out
    assert main([a, c]) == REFUSED == 2
    refused = capsys.readouterr()
    assert (refused.out, "triton: 2.51.0 against 2.60.0" in refused.err) == ("", True)
    assert main([a, c, "--allow", "triton"]) == ALIKE
    assert main([a, f"{a}/nowhere"]) == UNREADABLE == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert main([a, b] * 3) == ALIKE
    assert "3 pairs" in capsys.readouterr().out
    for wrong in ([a, b, "--allow", "devise"], [a, b] * 2, [a, b, a]):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
