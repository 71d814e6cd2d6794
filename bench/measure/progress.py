"""What a run says while it goes: a bar with the time left on a terminal, else a line per tenth of the way."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

TENTHS = 10


class Progress:
    """Use as `with Progress(visits) as progress`; next() before each visit."""

    def __init__(self, steps: int) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._steps = steps
        self._done = 0
        self._begin = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=self._console, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("", total=steps)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def next(self, what: str) -> None:
        """The step before is over, and this one begins."""
        self._bar.update(self._task, completed=self._done, description=what)
        if self._bar.disable and self._done and self._done * TENTHS % self._steps < TENTHS:
            left = (time.monotonic() - self._begin) / self._done * (self._steps - self._done)
            self.say(f"{self._done} of {self._steps} visits, about {left / 60:.0f} min left")
        self._done += 1

    def say(self, line: str) -> None:
        self._console.print(f"fiveway: {line}", markup=False, soft_wrap=True)
