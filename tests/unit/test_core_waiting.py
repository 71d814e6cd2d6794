"""A request that would wait too long is refused when it arrives."""

import contextlib

import pytest

from gateways.core import waiting
from gateways.core.errors import ServeError, Status
from gateways.core.serving import ServingError
from gateways.core.waiting import Line, max_wait_s


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def serve(line: Line, clock: Clock, seconds: float, images: int = 1) -> None:
    """One request of so many images that takes so long."""
    with line.join(images):
        clock.now += seconds


def test_the_wait_is_that_of_those_before(clock: Clock) -> None:
    """An image takes 0.5 s: 10 of them are 5 s of waiting, which is the limit; an eleventh is too late."""
    line = Line()
    serve(line, clock, 4.0, images=8)
    with line.join(10), line.join(1):
        says = r"11 images are before it, for about 5\.5 s, and 5 s is the limit"
        with pytest.raises(ServeError, match=says) as refused, line.join(1):
            pass
        assert refused.value.status is Status.OVERLOADED
    with line.join(32):  # nobody is before it: any batch is taken
        pass
    assert line.images == 0


def test_a_deadline_is_a_limit_too(clock: Clock) -> None:
    """What cannot be answered before its caller stops waiting is refused on arrival."""
    line = Line()
    serve(line, clock, 0.5)
    with line.join(2):
        with pytest.raises(ServeError, match=r"0\.9 s is the limit"), line.join(1, timeout=0.9):
            pass
        with line.join(1, timeout=1.1):
            pass


def test_what_fails_leaves_the_line_and_says_nothing_of_its_time(clock: Clock) -> None:
    """A refusal is quick, a timeout slow: neither is the time of an image."""
    line = Line()
    serve(line, clock, 0.5)
    with contextlib.suppress(RuntimeError), line.join(1):
        clock.now += 60
        raise RuntimeError
    assert line.images == 0
    with line.join(10), line.join(1):
        pass


def test_the_limit_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty is the default; a word, zero or less is refused with what to write."""
    for given, wanted in (("", 5.0), ("0.5", 0.5)):
        monkeypatch.setenv("MAX_WAIT_S", given)
        assert max_wait_s() == wanted
    for wrong in ("0", "-1", "soon", "inf", "nan"):
        monkeypatch.setenv("MAX_WAIT_S", wrong)
        with pytest.raises(ServingError, match="write seconds"):
            max_wait_s()


def test_one_request_that_met_a_hang_closes_no_door(clock: Clock) -> None:
    """The slowest of the last ones does not count; several of them do."""
    line = Line()
    serve(line, clock, 0.1)
    serve(line, clock, 60)
    with line.join(40), line.join(1):
        pass
    serve(line, clock, 60)
    with line.join(40), pytest.raises(ServeError), line.join(1):
        pass


def test_many_that_come_together_are_not_slow_ones(clock: Clock) -> None:
    """Forty find few before them and leave 20 ms apart: the last has waited for 0.8 s, and an image takes 0.02 s."""
    line = Line()
    together = [line.join(1) for _ in range(40)]
    for one in together:
        one.__enter__()
    for one in together:
        clock.now += 0.02
        one.__exit__(None, None, None)
    with line.join(260), pytest.raises(ServeError, match=r"5\.2 s"), line.join(1):
        pass
