"""What a run measures, and in which order."""

from collections import Counter
from dataclasses import replace
from itertools import chain, islice, pairwise

import pytest

from bench.measure import plan
from bench.measure.launcher import Window
from bench.measure.measured import Cell
from bench.measure.plan import Plan, arrivals
from locustfiles.study_routes import fiveway


def cells() -> tuple[Cell, ...]:
    return tuple(cell for route in fiveway.ROWS for cell in plan.matrix(Cell(route, route), (1, 8), (1, 16)))


def test_every_block_visits_every_cell_once_in_an_order_of_its_own() -> None:
    """The order is drawn anew for each block, and is the same for the same seed. Rows that are compared come together,
    in any order among themselves."""
    run = Plan("fiveway", cells(), 3, lambda _: Window(1, 1), seed=7)
    orders = [run.order(block) for block in (1, 2, 3)]
    assert all(Counter(chain(*order)) == Counter(run.cells) for order in orders)
    assert len({tuple(chain(*order)) for order in orders}) == 3
    assert orders == [run.order(block) for block in (1, 2, 3)]
    for order in orders:
        assert all(len({(cell.batch, cell.users) for cell in together}) == 1 for together in order)
        assert {len(together) for together in order} == {len(fiveway.ROWS)}
        assert len({tuple(cell.route for cell in together) for together in order}) > 1


def test_a_study_says_what_is_compared() -> None:
    """Numbers of callers, for one: then those of a row come together."""
    for together in Plan("scaling", cells(), 1, lambda _: Window(1, 1), seed=7, together=("users",)).order(1):
        assert len({(cell.route, cell.batch) for cell in together}) == 1
        assert {cell.users for cell in together} in ({1, 16}, {1})


def test_a_visit_has_short_windows() -> None:
    """About a quarter of a second each, and together as long as was asked; longer ones for calls that are longer."""
    one = Cell("onnx-http", "onnx-http")
    many, large = replace(one, users=fiveway.CONCURRENCY[-1]), replace(one, batch=fiveway.BATCHES[-1])
    found = [plan.in_turns(*asked) for asked in ((1.0, one), (1.0, many), (1.0, large), (0.1, one))]
    assert [(window.rounds, window.seconds) for window in found] == [(4, 0.25), (4, 0.375), (2, 0.75), (1, 0.1)]


def test_the_published_method_keeps_the_order_and_makes_a_client_per_call() -> None:
    """Route after route, one block, 30 calls with one user and 60 with more, five to warm up."""
    run = plan.published(cells(), seed=1)
    assert [[cell.route] for cell in cells()] == [[cell.route for cell in some] for some in run.order(1)]
    assert {cell.policy for cell in run.cells} == {"published"}
    windows = {cell.users: run.window(cell) for cell in run.cells}
    assert (windows[1].calls, windows[16].calls, windows[1].warm_calls) == (30, 60, 5)


def test_a_schedule_has_the_rate_it_was_asked_for() -> None:
    """10,000 Poisson arrivals at 200 per second take 50 s, to four standard deviations; the gaps are exponential."""
    due = list(islice(arrivals(200.0, start=5.0, seed="a"), 10_000))
    assert due[-1] - 5.0 == pytest.approx(50.0, abs=4 * 0.5)
    gaps = [after - before for before, after in pairwise(due)]
    mean = sum(gaps) / len(gaps)
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.1)
    assert due == list(islice(arrivals(200.0, start=5.0, seed="a"), 10_000))
