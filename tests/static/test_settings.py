"""One list of knobs: .env.example names every variable that Compose files and scripts read, with its default."""

import re

from tests.repository import ROOT, SCRIPTS

PYTHON = [f"host/{path.name}" for path in (ROOT / "scripts/host").glob("*.py")]
# The shell's and Compose's own, and what scripts/bench tells Compose.
NOT_KNOBS = {"PWD", "COMPOSE_PROJECT_NAME", "BENCH_IPC"}
# `${NAME:-default}` in Compose files, `setting NAME default` in bash, `setting("NAME", "default")` in Python.
COMPOSE = re.compile(r"(?<!\$)\$\{(\w+)(?::?[-?]([^}]*))?\}")
SCRIPT = re.compile(r"\bsetting[ (]\"?([A-Z_]+)\"?,? (?:\"([^\"]*)\"|(\S+?)[)\s])")


def used() -> dict[str, set[str]]:
    """Every variable with the defaults it has, wherever it is read."""
    found: dict[str, set[str]] = {}
    for path in [ROOT / "compose.yaml", *(ROOT / "compose").glob("*.yaml")]:
        for name, default in COMPOSE.findall(path.read_text()):
            found.setdefault(name, set()).add(default)
    for path in (ROOT / "scripts" / name for name in ("lib.sh", *SCRIPTS, *PYTHON)):
        code = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
        for name, quoted, plain in SCRIPT.findall(code):
            # A default that is worked out (`$...`) is the script's business.
            found.setdefault(name, set()).update({d for d in (quoted, plain) if d and "$" not in d})
    return {name: defaults for name, defaults in found.items() if name not in NOT_KNOBS}


def listed() -> dict[str, str]:
    """The commented lines of .env.example: NAME=default."""
    return dict(re.findall(r"^# ([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text(), re.M))


def test_every_variable_is_listed_with_its_default() -> None:
    """Every documented setting is read, every setting is documented, and its commented line shows the default."""
    assert {name: {default} for name, default in listed().items()} == used()


def test_the_file_is_flat_and_sets_nothing() -> None:
    """Copied as it is, it changes nothing; every knob has its why above it."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert all(not line or line.startswith("#") for line in lines)
    for number, line in enumerate(lines):
        if re.match(r"# [A-Z_]+=", line):
            assert re.match(r"# \S", lines[max(number - 1, 0)]), f"{line}: say why above it"
