"""scripts/bench refuses what cannot run before it asks anybody: status 2, and a line that says what to choose."""

import sys

import pytest

from bench.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("fiveway --routes onnx-htp", "jpeg-http"),
        ("fiveway --batches 33", "1 to 32"),
        ("fiveway --batches one", "whole numbers"),
        ("fiveway --policy warm", "pooled, shared, cold"),
        ("fiveway --target moon", "edge, direct"),
        ("fiveway --turbo", "--turbo"),
        ("fivewya", "fiveway"),
    ],
)
def test_what_cannot_run_is_refused(
    arguments: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the parser of the options or by the check of the settings."""
    monkeypatch.setattr(sys, "argv", ["scripts/bench", *arguments.split()])
    try:
        status = main()
    except SystemExit as ended:
        status = ended.code  # type: ignore[assignment]
    assert status == 2
    assert says in capsys.readouterr().err
