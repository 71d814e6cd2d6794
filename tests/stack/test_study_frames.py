"""The study `frames` in its quick form, on the gateway of the profile `transport`."""

from pathlib import Path
from typing import Any

import pytest

from bench.studies.frames import FRAMES
from locustfiles.study_routes.frames import IN_PROCESS, ROWS
from tests.docker import container, docker
from tests.stack.runs import answered, finished, verdicts


@pytest.fixture(scope="module")
def found(stack: None) -> dict[str, Any]:
    # Twice its time: on a busy machine the slowest rows have few calls a second.
    return finished("frames", "--quick", "--seconds", "1.4", limit_s=300)


@pytest.mark.timeout(330)
def test_every_row_is_measured(found: dict[str, Any]) -> None:
    """Three visits a row; every answer was the inverted frame; both sides' CPU time is known."""
    assert {cell["name"] for cell in found["cells"]} == set(ROWS)
    for about, cell, visit in answered(found):
        assert visit["connections"] == (1 if "http" in cell["name"] or "grpc" in cell["name"] else 0), about
        assert visit["server_requests"] is None, about
        assert visit["client_cpu"] > 0, about
        assert ("server.cpu" in visit["stages_ms"]) is (cell["name"] != IN_PROCESS), about
    marks = [mark for cell in found["analysis"]["cells"] for mark in cell["marks"]]
    assert [mark for mark in marks if "of a core" in mark] == [], "the study has no gate"


def test_every_row_gives_the_same_frame(found: dict[str, Any]) -> None:
    """Compared before anything is timed, and after."""
    assert set(found["parity"]) == set(ROWS)
    assert {name: one for name, one in found["parity"].items() if not one["agrees"]} == {}


def test_pixels_go_over_the_network_only_where_they_must(found: dict[str, Any]) -> None:
    """Base64 is a third larger than the frame and hex twice as large; in shared memory next to nothing is sent."""
    sent = {cell["id"].split("/")[0]: cell["sent_bytes_per_image"] or 0 for cell in found["analysis"]["cells"]}
    frame = 1280 * 720 * 3
    for row, least in (("http-hex", 2), ("http-base64", 4 / 3), ("http-pybase64", 4 / 3), ("grpc", 1)):
        assert least * frame < sent[f"frames-{row}"] < 1.1 * least * frame
    assert 0 < sent["frames-http-jpeg"] < frame / 3
    assert max(sent[row] for row in (IN_PROCESS, "frames-shm-zmq", "frames-shm-zmq-double", "frames-zmq")) < 1000


def test_every_claim_has_a_verdict(found: dict[str, Any]) -> None:
    """One of three, for each of the claims; the question has an answer, of the rows that had calls enough."""
    verdicts(found, FRAMES)
    assert "frames-shm-zmq" in FRAMES.answer(found)


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="a kernel without huge pages")
def test_shared_memory_is_in_huge_pages() -> None:
    """As numpy's arrays of a 1080p frame are: else the baseline has fewer pages to look up, and not fewer copies."""
    look = (
        "import mmap, os, tempfile; opened = tempfile.TemporaryFile(dir='/frames'); size = 16 << 20;"
        "os.posix_fallocate(opened.fileno(), 0, size); memory = mmap.mmap(opened.fileno(), size);"
        "memory[::4096] = b'1' * (size // 4096);"
        "print(sum(int(line.split()[1]) for line in open('/proc/self/smaps') if line.startswith('ShmemPmdMapped')))"
    )
    assert int(docker("exec", container("frames")["Id"], "python3", "-c", look)) > 0, "kB in huge pages"


def test_nothing_is_left_in_the_shared_memory(found: dict[str, Any]) -> None:
    """The bench's processes were killed, and their frames are gone with them: the socket alone is there."""
    listed = docker("exec", container("frames")["Id"], "ls", "/frames")
    assert listed.split() == ["zmq"]
