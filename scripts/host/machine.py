"""What the scripts read from this machine: other programs, settings, files, sizes."""

import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
ENV = ROOT / ".env"
PATIENCE_S = 20  # for one question to another program
# One line of .env: a value in single or double quotes, or up to a comment.
_ASSIGNED = re.compile(
    r"""^\s*(?:export\s+)?(\w+)\s*=[ \t]*(?:'([^'\n]*)'|"((?:[^"\\\n]|\\.)*)"|(.*?))[ \t]*(?:(?<=\s)\#.*)?$""", re.M
)


class Refusal(Exception):
    """Why a script stops and what to do, in one line."""

    status = 1


class Usage(Refusal):
    """Wrong arguments: exit status 2."""

    status = 2


def verb(run: Callable[[], int]) -> NoReturn:
    """Run a script and end the process; a Refusal becomes one line on stderr and its exit status."""
    try:
        sys.exit(run())
    except Refusal as refusal:
        print(f"fiveway: {refusal}", file=sys.stderr)
        sys.exit(refusal.status)


def say(text: str) -> None:
    print(f"==> {text}", flush=True)


def ask(*command: str, send: str = "") -> str | None:
    """stdout of a program, stripped; None where it fails, takes too long or is not there."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, input=send, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def lib(function: str) -> str | None:
    """The output of a function of lib.sh; None if it fails. lib.sh has what scripts/engine needs before any Python."""
    return ask("bash", "-c", f". scripts/lib.sh; {function}")


def run(*command: str) -> None:
    """One noisy step; its output is shown only when it fails. Raises Refusal."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print("\n".join(done.stdout.splitlines()[-40:]), file=sys.stderr)
        raise Refusal(f"failed: {' '.join(command)}")


def read(path: str) -> str:
    """A file of this machine; empty where it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def setting(name: str, default: str) -> str:
    """The environment first, then .env, then the default: the order Compose uses."""
    return (os.environ[name] if name in os.environ else env_file().get(name, "")) or default


@functools.cache
def env_file() -> dict[str, str]:
    """The settings of .env, as Compose reads them. Before Compose is installed, variables in values are not
    expanded."""
    if not ENV.is_file():
        return {}
    found = _ASSIGNED.findall(ENV.read_text())
    said = {name: single or re.sub(r"\\(.)", r"\1", double) or bare for name, single, double, bare in found}
    question = json.dumps({"name": "settings", "x-settings": {name: f"${{{name}-}}" for name in said}})
    compose = ("docker", "compose", "--env-file", str(ENV), "-f", "-", "config", "--format", "json")
    answer = ask(*compose, send=question)
    return said | json.loads(answer)["x-settings"] if answer else said


def accelerator() -> str:
    """cpu or gpu, or an invalid value that the caller must refuse."""
    return setting("ACCELERATOR", "cpu")


def memory_mib() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def free_gb(folder: str | Path) -> int:
    return shutil.disk_usage(folder).free >> 30


def listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=5):
            return True
    except OSError:
        return False


def results() -> Path:
    """The folder of the results, made if need be: RESULTS as Compose reads it, from compose/. Raises Refusal."""
    folder = Path(os.path.normpath(ROOT / "compose" / setting("RESULTS", "../results")))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise Refusal("the folder for results cannot be made: set RESULTS to one that can") from None
    return folder


if __name__ == "__main__":  # for bash scripts: print the value of a setting, or the folder of the results
    verb(lambda: print(results() if sys.argv[1] == "results" else setting(sys.argv[1], "")) or 0)
