"""What both servers' parts of scripts/swap say, and with which exit code."""

import sys

import pytest

from servers import swap


def fail() -> None:
    raise RuntimeError('POST /load answered 400: {"error":"failed to load: bad graph\\n\\nAt:\\n  model.py"}')


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["load"], 1, "triton: failed to load: bad graph\n"),
        (["tidy"], 0, ""),
        (["lode"], 2, "invalid choice"),
        ([], 2, "required"),
    ],
)
def test_a_step_that_fails_is_one_line(
    arguments: list[str], status: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Triton's own words, without the traceback that follows them."""
    monkeypatch.setattr(sys, "argv", ["swap", *arguments])
    with pytest.raises(SystemExit) as left:
        sys.exit(swap.main("triton", None, {"load": fail, "tidy": lambda: None}))
    assert left.value.code == status
    error = capsys.readouterr().err
    assert error == says if status < 2 else says in error
