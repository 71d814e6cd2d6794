"""The rows of study `frames`: the pan, and the clients of all rows against the real gateway."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

from bench.analysis.analysis import analyse
from bench.measure.launcher import Launcher
from bench.result import Interval
from bench.studies.frames import FRAMES, FULL_HD
from locustfiles.answers import WrongAnswer
from locustfiles.clients import CallError, Endpoint, Payload
from locustfiles.clients.frames import Changed, DoubleBuffered, SharedMemory, own_memory
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.frames import HD, PAN, ROWS, camera, encode
from tests.unit.bench_runs import change, synthetic_run, to
from tests.unit.frames_server import frames_server
from tests.unit.tiny_artifacts import tiny


@pytest.fixture(scope="module")
def folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """That of a gateway that runs, with all that the load must know of it in the environment."""
    folder = tmp_path_factory.mktemp("f")
    with frames_server(folder) as (http, grpc), pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRAMES", str(folder))
        patch.setenv("DIRECT_ADDRESSES", f"frames:8000=127.0.0.1:{http} frames:50051=127.0.0.1:{grpc}")
        patch.setenv("ARTIFACTS", str(tiny(tmp_path_factory.mktemp("a"), side=1)))
        patch.setenv("PYTHONPATH", f"{root}:{root / 'proto' / 'gen'}")
        yield folder


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


def test_every_row_gives_the_same_frame(folder: Path) -> None:
    """The inverted one: bit for bit, and as JPEG close to it; nothing of it is left in the shared folder."""
    with Launcher("http://127.0.0.1:1", seed=1) as load:
        found = load.parity(FRAMES.cells(True), {})
    assert set(found) == set(ROWS)
    assert all(one["agrees"] for one in found.values())
    assert {name for name, one in found.items() if "on average within 4" in one["why"]} == {"frames-http-jpeg"}
    assert [path.name for path in folder.iterdir()] == ["zmq"]


@pytest.mark.timeout(120)
def test_one_frame_ahead_each_call_answers_with_the_frame_before(folder: Path) -> None:
    """The first with its own; also after the server was away, and after a frame of another size."""
    client = DoubleBuffered(Endpoint("", "zmq"))
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
    assert [path.name for path in folder.iterdir()] == ["zmq"]


def test_a_client_says_that_the_server_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the profile is off the volume is empty; what was put there is gone with the client. Where the volume is not
    mounted the client says so."""
    monkeypatch.setenv("FRAMES", str(tmp_path))
    for row in ("frames-shm-zmq", "frames-shm-zmq-double", "frames-zmq"):
        made: Any = WAYS[row].format.client
        opened = made(Endpoint("", "zmq"))
        with pytest.raises(CallError, match="scripts/up --profile transport"):
            opened.send(camera(HD)[0])
        opened.close()
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("FRAMES", str(tmp_path / "absent"))
    client = SharedMemory(Endpoint("", "zmq"))
    with pytest.raises(CallError, match="is the volume `frame-memory` mounted"):
        client.send(camera(HD)[0])
    client.close()


@pytest.mark.parametrize(("height", "width"), [(720, 1280), (1080, 1920)])
def test_memory_of_its_own_is_in_huge_pages_at_every_size(height: int, width: int) -> None:
    """Where the kernel has some to give: as the shared memory's are."""

    def huge_kb() -> int:
        smaps = Path("/proc/self/smaps").read_text().splitlines()
        return sum(int(line.split()[1]) for line in smaps if line.startswith("AnonHugePages"))

    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    before = huge_kb()
    frame = own_memory(height, width, 3)
    assert frame.shape == (height, width, 3)
    assert not frame.any()
    frame[:] = 1
    if enabled.exists() and "[never]" not in enabled.read_text():
        assert huge_kb() > before


def test_a_frame_that_is_not_the_inverted_one_is_wrong() -> None:
    """By its CRC-32; a lossy one by how far its pixels are away."""
    sent = np.zeros((720, 1280, 3), np.uint8)
    right = 255 - sent

    def changed(frame: Any) -> Changed:
        return Changed(b"", frame=frame, sent=sent, crc32=zlib.crc32(frame), wanted=zlib.crc32(right))

    ROWS["frames-zmq"].format.check(changed(right), 1)
    ROWS["frames-http-jpeg"].format.check(changed(right - 3), 1)
    for row, wrong in (("zmq", right - 3), ("zmq", sent), ("http-jpeg", right - 30), ("http-jpeg", sent)):
        with pytest.raises(WrongAnswer):
            ROWS[f"frames-{row}"].format.check(changed(wrong), 1)


def test_a_client_that_works_hard_is_no_reason_for_doubt() -> None:
    """The study has no gate; the CPU time of a frame is that of the client's process and what the server said."""
    run = synthetic_run(study="frames", names=["onnx-http"], batches=[1], users=[1])
    busy = change(run, lambda _: True, to(client_cpu=0.9, counted_s=2.0, stages_ms={"server.cpu": 2.5}))
    (cell,) = analyse(busy)["cells"]
    assert (cell["marks"], cell["server_cpu_ms"]) == ([], Interval(2.5))
    assert cell["client_cpu_ms"]["value"] == pytest.approx(0.9 * 2000 / (cell["requests"] / cell["blocks"]))
