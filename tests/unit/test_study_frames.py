"""The study `frames`: the pan, the clients of all rows against the real gateway, and the claims on made-up ratios."""

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

from bench.analysis import claims
from bench.analysis.analysis import analyse
from bench.measure.launcher import Window, launcher
from bench.measure.measured import Cell, Visit
from bench.result import Interval
from bench.studies import STUDIES
from bench.studies.frames import CLAIMS, COPIES, FPS, FRAMES, FULL_HD, answer
from bench.studies.study import LOWER, PER_SECOND
from locustfiles.answers import WrongAnswer
from locustfiles.clients import CallError, Payload
from locustfiles.clients.frames import Changed, DoubleBuffered, SharedMemory, own_memory
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.frames import (
    DOUBLE,
    GRPC,
    HD,
    IN_PROCESS,
    JPEG_HTTP,
    MULTIPART_HTTP,
    PAN,
    ROWS,
    SHM,
    ZMQ,
    camera,
    encode,
)
from tests.repository import ROOT
from tests.unit.bench_runs import change, synthetic_run
from tests.unit.tiny_artifacts import tiny

WINDOW = Window(seconds=0.6, warm_s=0.1)
# In a process of its own, because the load's clients patch it.
PARITY = """
import json, locust
from bench.measure import parity
from bench.studies import STUDIES
print(json.dumps(parity.check(STUDIES["frames"].cells(True), "http://127.0.0.1:1")))
"""


@pytest.fixture(scope="module")
def environment(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A gateway that runs, and what the load must know of it."""
    folder = tmp_path_factory.mktemp("f")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.frames_server", folder],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        http, grpc = (f"127.0.0.1:{port}" for port in process.stdout.readline().split())
        yield {
            "FRAMES": str(folder),
            "DIRECT_ADDRESSES": f"frames:8000={http} frames:50051={grpc}",
            "ARTIFACTS": str(tiny(tmp_path_factory.mktemp("a"), side=1)),
            "PYTHONPATH": f"{root}:{root / 'proto' / 'gen'}",
        }
        process.communicate()


def test_the_pan_is_deterministic_and_moves() -> None:
    """Frames of the size that was asked for, all different, made alike again; each knows its inverted CRC-32."""
    frames = camera(HD)
    assert len({frame.body for frame in frames}) == len(frames) == PAN
    for turn in (0, PAN - 1):
        found = encode(Images((), Path(), "", HD, turn))
        pixels = simplejpeg.decode_jpeg(found.body)
        assert pixels.shape == (720, 1280, 3)
        assert int(found.headers["crc32"]) == zlib.crc32(255 - pixels)
    camera.cache_clear()
    assert [frame.body for frame in camera(HD)] == [frame.body for frame in frames]
    assert {**camera(FULL_HD)[0].headers, "crc32": ""} == {"width": "1920", "height": "1080", "crc32": ""}


@pytest.mark.timeout(120)
def test_every_row_gives_the_same_frame(environment: dict[str, str]) -> None:
    """The inverted one: bit for bit, and as JPEG close to it; nothing of it is left in the shared folder."""
    done = subprocess.run(
        [sys.executable, "-c", PARITY],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert set(found) == set(ROWS)
    why = {name: one["why"] for name, one in found.items()}
    assert why == dict.fromkeys(ROWS, f"equal to {IN_PROCESS}'s") | {
        JPEG_HTTP: f"on average within 4 of {IN_PROCESS}'s"
    }
    assert all(one["agrees"] for one in found.values())
    assert [path.name for path in Path(environment["FRAMES"]).iterdir()] == ["zmq"]


@pytest.mark.timeout(120)
def test_a_visit_counts_its_frames_and_the_cpu_time_of_both_sides(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In process and in shared memory, double buffered too; the server's CPU time is known where there is a server."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with launcher("http://127.0.0.1:1", seed=1) as load:
        for row in (IN_PROCESS, SHM, DOUBLE):
            (cell,) = [cell for cell in FRAMES.cells(True) if cell.name == row]
            found = load.visit(cell, WINDOW, block=1, position=1)
            assert (found.problem, found.errors) == ("", {})
            assert found.requests > 0
            assert found.client_cpu > 0
            assert ("server.cpu" in found.stages_ms) is (row != IN_PROCESS)
    assert [path.name for path in Path(environment["FRAMES"]).iterdir()] == ["zmq"]


@pytest.mark.timeout(120)
def test_one_frame_ahead_each_call_answers_with_the_frame_before(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first with its own; also after the server was away, and after a frame of another size."""
    monkeypatch.setenv("FRAMES", environment["FRAMES"])
    client = DoubleBuffered("", "zmq", {}, lambda: None)
    pan = camera(HD)

    def answers(frames: Sequence[Payload]) -> list[int]:
        called = [client.send(frame) for frame in frames]
        assert [call.crc32 for call in called] == [call.wanted for call in called]
        return [call.wanted for call in called]

    sent = [int(frame.headers["crc32"]) for frame in pan[:5]]
    assert answers(pan[:5]) == [sent[0], *sent[:4]]
    client.close()
    assert answers(pan[1:4]) == [sent[1], sent[1], sent[2]]
    large = [int(frame.headers["crc32"]) for frame in camera(FULL_HD)[:2]]
    assert answers(camera(FULL_HD)[:2]) == [large[0], large[0]]
    client.close()
    assert [path.name for path in Path(environment["FRAMES"]).iterdir()] == ["zmq"]


def test_a_client_says_that_its_folder_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the volume is not mounted, shared memory fails with what to look at."""
    monkeypatch.setenv("FRAMES", str(tmp_path / "absent"))
    client = SharedMemory("", "zmq", {}, lambda: None)
    with pytest.raises(CallError, match="is the volume `frame-memory` mounted"):
        client.send(camera(HD)[0])
    client.close()


def test_a_client_says_that_the_server_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the profile is off the volume is empty; what was put there is gone with the client."""
    monkeypatch.setenv("FRAMES", str(tmp_path))
    for row in (SHM, DOUBLE, ZMQ):
        client = WAYS[row].format.client
        assert client
        opened = client("", "zmq", {}, lambda: None)
        with pytest.raises(CallError, match="docker compose --profile transport up"):
            opened.send(camera(HD)[0])
        opened.close()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("height", "width"), [(720, 1280), (1080, 1920)])
def test_memory_of_its_own_is_in_huge_pages_at_every_size(height: int, width: int) -> None:
    """Where the kernel has some to give: as the shared memory's are."""
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    before = _huge_kb()
    frame = own_memory(height, width, 3)
    assert frame.shape == (height, width, 3)
    assert not frame.any()
    frame[:] = 1
    if enabled.exists() and "[never]" not in enabled.read_text():
        assert _huge_kb() > before


def _huge_kb() -> int:
    smaps = Path("/proc/self/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) for line in smaps if line.startswith("AnonHugePages"))


def test_a_frame_that_is_not_the_inverted_one_is_wrong() -> None:
    """By its CRC-32; a lossy one by how far its pixels are away."""
    sent = np.zeros((720, 1280, 3), np.uint8)
    right = 255 - sent

    def changed(frame: Any) -> Changed:
        return Changed(b"", frame=frame, sent=sent, crc32=zlib.crc32(frame), wanted=zlib.crc32(right))

    ROWS[ZMQ].format.check(changed(right), 1)
    ROWS[JPEG_HTTP].format.check(changed(right - 3), 1)
    for row, wrong in ((ZMQ, right - 3), (ZMQ, sent), (JPEG_HTTP, right - 30), (JPEG_HTTP, sent)):
        with pytest.raises(WrongAnswer):
            ROWS[row].format.check(changed(wrong), 1)


def test_the_cells() -> None:
    """Every row with one user, directly: at 720p, and in the whole study at 1080p too; that is within its time."""
    assert STUDIES["frames"] is FRAMES
    assert all(WAYS[row] is route for row, route in ROWS.items())
    for quick, sizes in ((True, {HD}), (False, {HD, FULL_HD})):
        cells = FRAMES.cells(quick)
        assert {(cell.name, cell.size) for cell in cells} == {(row, size) for row in ROWS for size in sizes}
        assert {(cell.users, cell.target, cell.policy, cell.batch) for cell in cells} == {(1, "direct", "pooled", 1)}
    assert len(FRAMES.cells(False)) * FRAMES.blocks * (FRAMES.seconds + 1.4) <= 7 * 60


def test_a_client_that_works_hard_is_no_reason_for_doubt() -> None:
    """The study has no gate; the CPU time of a frame is that of the client's process and what the server said."""
    run = synthetic_run(study="frames", names=["onnx-http"], batches=[1], users=[1])

    def edit(visit: Visit) -> None:
        visit.client_cpu, visit.counted_s, visit.requests = 0.9, 2.0, visit.server_requests or 0
        visit.stages_ms["server.cpu"] = 2.5

    (cell,) = analyse(change(run, lambda _: True, edit))["cells"]
    assert cell["marks"] == []
    assert cell["server_cpu_ms"] == Interval(2.5)
    assert cell["client_cpu_ms"]["value"] == pytest.approx(0.9 * 2000 / (cell["requests"] / cell["blocks"]))


def test_the_published_rows() -> None:
    """Nine of the eleven rows have a number; that of shared memory is 95 of 105 frames per second."""
    assert (len(FPS), FPS[IN_PROCESS], FPS[SHM], FPS[MULTIPART_HTTP]) == (9, 105, 95, 3.5)
    assert FRAMES.published({"name": SHM}) == {"published": 95}
    assert FRAMES.published({"name": "frames-grpc-stream"}) == {}


def test_copies_are_declared_for_every_row() -> None:
    """None in one process and in shared memory."""
    assert set(COPIES) == set(ROWS)
    assert {row for row, copies in COPIES.items() if not copies} == {IN_PROCESS, SHM, DOUBLE}


def ratio(a: str, b: str, value: float, size: str = HD) -> dict[str, Any]:
    """A ratio of frames per second with a narrow interval around `value`."""
    return {
        "a": Cell(a, a, target="direct", size=size).id,
        "b": Cell(b, b, target="direct", size=size).id,
        "a_name": a,
        "b_name": b,
        "measure": PER_SECOND,
        "value": value,
        "low": value * 0.99,
        "high": value * 1.01,
        "verdict": "lower" if value < 0.99 else "higher" if value > 1.01 else "no difference shown",
        "why": [],
    }


def judged(right: float) -> dict[str, str]:
    """The verdicts where every ratio is `right`, or its inverse where a claim expects the other side."""
    cells = {cell.id: {"size": cell.size} for cell in FRAMES.cells(False)}
    found = {}
    for claim in CLAIMS:
        value = 1 / right if claim.expected == LOWER else right
        ratios = [ratio(a, b, value) for a, b in claim.pairs]
        (verdict,) = [one for one in claims.judge(FRAMES, cells, ratios) if one["id"] == claim.id]
        found[claim.id] = verdict["verdict"]
    return found


def test_claims_are_judged() -> None:
    """On the side of the finding it is reproduced, on the other not; one that names a size has to reach it."""
    assert set(judged(5).values()) == {"reproduced"}
    sized = dict.fromkeys(["zmq-grpc", "grpc-http"], "not reproduced")
    assert judged(1.2) == dict.fromkeys(judged(1.2), "reproduced") | sized
    assert set(judged(0.5).values()) == {"not reproduced"}


def test_every_claim_rests_on_pairs_that_are_compared() -> None:
    """Else it could never be judged; and each row is set against the baseline."""
    assert {pair for claim in CLAIMS for pair in claim.pairs} <= set(FRAMES.pairs)
    assert {(row, IN_PROCESS) for row in ROWS} - {(IN_PROCESS, IN_PROCESS)} <= set(FRAMES.pairs)


def test_the_answer_is_what_each_way_keeps() -> None:
    """Best first, size by size; without a verdict a row is left out."""
    cells = [{"id": cell.id, "size": cell.size} for cell in FRAMES.cells(False)]
    ratios = [
        ratio(GRPC, IN_PROCESS, 0.3),
        ratio(SHM, IN_PROCESS, 0.97),
        ratio(SHM, IN_PROCESS, 0.98, FULL_HD),
        ratio(ZMQ, IN_PROCESS, 0.6) | {"verdict": "no verdict"},
        ratio(SHM, ZMQ, 1.5),
    ]
    assert answer({"cells": cells, "analysis": {"ratios": ratios}}) == (
        "On this machine, of one process's frames per second are kept at 1280x720 frames-shm-zmq 0.97, "
        "frames-grpc 0.3; at 1920x1080 frames-shm-zmq 0.98."
    )
    assert answer({"cells": cells, "analysis": {"ratios": []}}) == ""
