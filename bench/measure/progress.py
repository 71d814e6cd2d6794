"""The progress of a run: on a terminal a bar with the time left, else a line per tenth of the run."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

TENTHS = 10


class Progress(Bar):
    """Use as `with Progress(visits) as progress`; next() before each visit."""

    def __init__(self, steps: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(stderr=True, highlight=False)
        super().__init__(*columns, console=console, disable=not sys.stderr.isatty())
        self._steps, self._done, self._begun = steps, 0, 0
        self._run = self.add_task("", total=steps)

    def next(self, what: str, steps: int = 1) -> None:
        """The previous steps have ended and these begin."""
        before, done = self._done, self._begun
        self.update(self._run, completed=done, description=what)
        if self.disable and before * TENTHS // self._steps < done * TENTHS // self._steps:
            left = (self.tasks[0].elapsed or 0) / done * (self._steps - done)
            self.say(f"{done} of {self._steps} visits, about {left / 60:.0f} min left")
        self._done, self._begun = done, done + steps

    def say(self, line: str) -> None:
        self.console.print(f"fiveway: {line}", markup=False, soft_wrap=True)
