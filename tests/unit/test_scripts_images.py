"""What scripts/up and scripts/bench build, pull and start, with a shell script in the place of docker."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from bench.studies import STUDIES
from bench.studies.study import Study
from tests.repository import ROOT

# Notes each command, and what it is handed; $UP are the services that run.
DOCKER = """#!/bin/bash
printf '%s CA_BUNDLE=%s\\n' "$*" "$CA_BUNDLE" >>"$NOTES"
case "$*" in
  *NCPU*) echo 2 ;;
  "compose version --short") echo 2.26.1 ;;
  "compose ps --quiet --status running "*) [[ " $UP " != *" ${*: -1} "* ]] || echo 1234 ;;
  *"ps --services"*) printf '%s\\n' $UP ;;
  logs*) echo "${TRITON:-jpeg-http ok 40 ms}" ;;
  ps*) echo 1234 ;;
  "compose --profile bench config --images") printf '%s\n' fiveway-edge:local fiveway-triton-gpu fiveway-edge:local ;;
  "image inspect --format {{.Id}} "*) [[ " $BUILT " == *" ${*: -1} "* ]] && echo "sha256:123456789012345" ;;
  inspect*) printf '%s\n' "$HEALTH" ;;
  *" up --detach --wait") [ -z "$WAIT" ] || sleep "$WAIT" ;;
esac
"""
PROFILES = {
    name: set(yaml.safe_load((ROOT / f"compose/{name}.yaml").read_text())["services"])
    for name in ("transport", "peers")
}
STACK = ("edge", "locust-master", "triton")
TRANSPORT, PEERS = "compose --profile transport ", "compose --profile peers "


def call(folder: Path, *words: str, up: tuple[str, ...] = STACK, **variables: str) -> tuple[int, str, list[str]]:
    """Exit status, what was said, and what docker was asked to build, to start and to run, by `scripts/<words>`."""
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    notes, bundle = folder / "notes", folder / "ca.pem"
    bundle.touch()
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "NOTES": str(notes), "UP": " ".join(up)}
    environment |= {"CA_BUNDLE": str(bundle), "RESULTS": str(folder), **variables}
    done = subprocess.run(
        [ROOT / "scripts" / words[0], *words[1:]], env=environment, capture_output=True, text=True, check=False
    )
    acts = [line.rpartition(" CA_BUNDLE=") for line in notes.read_text().splitlines()]
    acts = [act for act in acts if {"build", "pull", "up", "run"} & set(act[0].split()) and "bench build" not in act[0]]
    assert {handed for _, _, handed in acts} <= {str(bundle)}, "each gets the host's CA bundle"
    return done.returncode, done.stdout + done.stderr, [asked for asked, _, _ in acts]


def asked(study: Study) -> set[str]:
    """The servers of a profile that its rows ask, and the proxy where its cells have a distance."""
    cells = [cell for quick in (True, False) for cell in study.cells(quick)]
    servers = {str(way.direct).partition(":")[0] for way in study.routes.values()}
    return (servers | {"distance" for cell in cells if cell.distance}) & set().union(*PROFILES.values())


@pytest.mark.parametrize("study", [one for one in STUDIES.values() if one.name != "endpoint"], ids=lambda one: one.name)
def test_a_study_starts_the_servers_that_it_asks(study: Study, tmp_path: Path) -> None:
    """By name and without what they depend on, before anything is measured; one line says so."""
    status, said, acts = call(tmp_path, "bench", study.name, "--quick")
    assert status == 0, said
    servers = " ".join(sorted(asked(study)))
    compose = PEERS if study.name in ("peers", "shm") else TRANSPORT
    started = [f"{compose}build {servers}", f"{compose}up --detach --wait --no-deps {servers}"]
    assert acts[:-1] == (started if servers else [])
    assert acts[-1].endswith(f"bench python -m bench {study.name} --quick")
    assert said == (f"==> Starting what the study asks: {servers}\n" if servers else "")


@pytest.mark.parametrize(
    ("words", "servers"),
    [
        ("distance", "distance echo-grpc"),
        ("frames --distance=25ms-100mbit", "distance frames"),
        ("fiveway --distance 25ms-100mbit", "distance"),
        ("base --target http://elsewhere:8080", ""),
        ("base --host http://elsewhere:8080", ""),
        ("base --help", ""),
        ("report results/a", ""),
    ],
)
def test_what_else_decides(words: str, servers: str, tmp_path: Path) -> None:
    """What runs is left alone; a distance needs its proxy; with an edge elsewhere, and where nothing is measured,
    nothing is started."""
    acts = call(tmp_path, "bench", *words.split(), up=("edge", "echo-http"))[2]
    assert [act.partition("--no-deps ")[2] for act in acts if " up " in act] == ([servers] if servers else [])


def test_without_the_stack_a_study_says_how_to_start_it(tmp_path: Path) -> None:
    """The stack is not started as a side effect, with a model that the user did not choose."""
    status, said, acts = call(tmp_path, "bench", "base", up=())
    assert (status, said, acts) == (1, "fiveway: the stack does not run: start the stack first (./scripts/up)\n", [])


@pytest.mark.parametrize(
    ("words", "study", "compose"),
    [
        ("up", "", "compose "),
        ("up", "fiveway", "compose "),
        ("up", "base", TRANSPORT),
        ("up --profile transport", "", TRANSPORT),
        ("up", "peers", PEERS),
    ],
)
def test_up_starts_the_profile(words: str, study: str, compose: str, tmp_path: Path) -> None:
    """Where it is asked for, and where the Locust page offers a study that needs it."""
    status, said, acts = call(tmp_path, *words.split(), STUDY=study)
    assert status == 0, said
    assert acts == [f"{compose}build", f"{compose}up --detach --wait"]


@pytest.mark.parametrize(
    ("words", "pulled"), [("up", "compose pull"), ("bench frames", f"{TRANSPORT}pull frames")], ids=["up", "bench"]
)
def test_images_are_pulled_from_a_registry(words: str, pulled: str, tmp_path: Path) -> None:
    """A prefix without its slash would be another image's name: it is refused before anything is pulled."""
    status, said, acts = call(tmp_path, *words.split(), IMAGE_REGISTRY="registry.example/me/")
    assert status == 0, said
    assert pulled in acts
    (tmp_path / "notes").unlink()
    status, said, acts = call(tmp_path, *words.split(), IMAGE_REGISTRY="registry.example/me")
    assert (status, acts) == (2, [])
    assert "registry.example/me/" in said


def test_up_ends_with_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    """In seconds and with its reason, though Compose would wait on; until then it says what Triton says."""
    health = "CHECK a.1: UNAVAILABLE Internal: old\nCHECK triton: answered\nb.1: UNAVAILABLE Internal: no such file"
    status, said, _ = call(tmp_path, "up", WAIT="60", HEALTH=health, TRITON="triton: loading models: 10 s")
    assert status == 1
    assert "  triton: loading models: 10 s\n" in said
    assert said.endswith("fiveway: Triton cannot load a model: b.1: UNAVAILABLE Internal: no such file\n")


def test_up_goes_on_while_models_load(tmp_path: Path) -> None:
    """A model that a swap has unloaded, or that an older check named, ends nothing."""
    health = "CHECK a.1: UNAVAILABLE Internal: old\nCHECK triton: answered a probe\nb.1: UNAVAILABLE unloaded"
    status, said, _ = call(tmp_path, "up", WAIT="3", HEALTH=health)
    assert status == 0, said


def test_push_prints_what_a_kustomization_takes(tmp_path: Path) -> None:
    """The tag is the image's id, quoted, as it can be all digits. Without all images nothing is pushed."""
    status, said, _ = call(tmp_path, "push", "registry.example:5000/me", BUILT="fiveway-edge:local fiveway-triton-gpu")
    assert (status, yaml.safe_load(said)) == (0, {
        "images": [
            {"name": name, "newName": f"registry.example:5000/me/{name}", "newTag": "123456789012"}
            for name in ("fiveway-edge", "fiveway-triton-gpu")
        ]
    })  # fmt: skip
    assert (tmp_path / "notes").read_text().count("\npush --quiet registry.example:5000/me/") == 2
    (tmp_path / "notes").unlink()
    status, said, _ = call(tmp_path, "push", "registry.example/me", BUILT="fiveway-edge:local")
    assert (status, said) == (1, "fiveway: not built: fiveway-triton-gpu: docker compose --profile bench build\n")
    assert "\npush" not in (tmp_path / "notes").read_text()
