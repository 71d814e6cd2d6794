"""How a run goes, and how it ends badly: with a load that is a stand-in, since the ends are what is tested here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.measure.launcher import LoadError, Window
from bench.measure.measured import Cell, Run, Visit
from bench.measure.plan import Plan
from bench.measure.progress import Progress
from bench.measure.run import carry_out, problems
from tests.unit.tiny_artifacts import declare

CELLS = (Cell("onnx-http", "onnx-http"), Cell("onnx-grpc", "onnx-grpc"))
AGREES = {"agrees": True, "cosine": 1.0, "why": ""}
BLOCKS = 3


class Load:
    """Visits that say how many there were before; `when` is called with that number before those of each block."""

    def __init__(self, when: Callable[[int], None] = lambda _: None, parity: dict[str, Any] | None = None) -> None:
        self.made = 0
        self._when = when
        self._parity = parity or {cell.route: AGREES for cell in CELLS}

    def visits(self, cells: Sequence[tuple[Cell, Window]], block: int, position: int) -> list[Visit]:
        self._when(self.made)
        self.made += len(cells)
        return [Visit(block, position + at, "now", requests=self.made) for at in range(len(cells))]

    def parity(self, cells: object, precisions: object) -> dict[str, Any]:
        return dict(self._parity)


@pytest.fixture(autouse=True)
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model builder's record of a model `tiny`."""
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    declare(tmp_path)
    (tmp_path / "tiny").mkdir()
    path = tmp_path / "tiny" / "manifest.json"
    path.write_text("{}")
    return path


def run(load: Load) -> tuple[Run, list[int]]:
    """The run, and how many visits it had each time it was saved."""
    saved: list[int] = []

    def save(so_far: Run) -> None:
        saved.append(sum(len(visits) for _, visits in so_far.cells))

    plan = Plan("fiveway", CELLS, BLOCKS, lambda _: Window(1, 1), seed=1)
    with Progress(plan.blocks * len(CELLS)) as progress:
        return carry_out(plan, load, {}, {}, progress, save), saved  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("after", "happens", "saved", "why"),
    [
        (2, KeyboardInterrupt(), [2, 2], "interrupted (Ctrl-C)"),
        (4, LoadError("the load generator ended"), [2, 4, 4], "the load generator ended"),
        (2, None, [2, 4], "the model was changed during the run"),
    ],
)
def test_an_early_end_keeps_what_was_measured(
    after: int, happens: BaseException | None, saved: list[int], why: str, manifest: Path
) -> None:
    """Ctrl-C, a load that is gone, and a model that is swapped during a visit: the run says so and is saved."""

    def end(made: int) -> None:
        if made == after:
            if happens:
                raise happens
            manifest.write_text('{"another": true}')

    found, kept = run(Load(end))
    assert kept == saved
    assert why in problems(found)[0]


def test_a_route_that_is_down_is_left_out_and_named() -> None:
    """One route does not answer the comparison: it is not timed, the other one is, and the run is not whole. Where none
    answers nothing is timed, and the line says so."""
    down = {"agrees": False, "cosine": None, "why": "onnx-grpc: UNAVAILABLE"}
    load = Load(parity={"onnx-http": AGREES, "onnx-grpc": down})
    found, _ = run(load)
    assert load.made == BLOCKS
    assert problems(found) == [f"{CELLS[1].id}: 3 of 3 visits measured nothing: onnx-grpc: UNAVAILABLE"]
    found, _ = run(Load(parity={cell.route: down for cell in CELLS}))
    assert "no route answers: onnx-grpc: UNAVAILABLE" in problems(found)[0]


def test_a_route_that_changes_its_answers_gets_no_verdict() -> None:
    """It agreed before the run and not after: its parity says so."""
    load = Load()
    later = {"onnx-http": AGREES, "onnx-grpc": AGREES | {"agrees": False, "why": "0.2"}}
    answers = iter([load.parity(None, None), later])
    load.parity = lambda *_: next(answers)  # type: ignore[method-assign]
    found, _ = run(load)
    assert found.parity["onnx-http"] == AGREES
    assert found.parity["onnx-grpc"]["why"] == "after the run it no longer agreed: 0.2"
    assert not found.parity["onnx-grpc"]["agrees"]
