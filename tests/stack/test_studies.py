"""The studies in their quick forms: each row is measured, each count holds, each claim is judged."""

import functools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.result import Result
from bench.studies import STUDIES
from bench.studies.study import VERDICTS
from chaos.docker import container, docker, health
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.shm import LIMITS
from tests.stack.runs import answered, bench, finished, result, visits

DEFAULT = "format"
"""The one whose run is in the default tier: real routes, near and far."""
FAR, NEAR = "150ms-100mbit", "0ms-100mbit"
# frames, twice its time: on a busy machine the slowest rows have few calls a second. distance, two blocks of three: its
# calls are long, and its claims are about longer distances than its quick form has.
OPTIONS = {"frames": ("--seconds", "1.4", "--blocks", "3"), "distance": ("--blocks", "2")}

pytestmark = pytest.mark.timeout(330)


@functools.cache
def quick(study: str) -> dict[str, Any]:
    """The result of its quick form, run when it is first asked for."""
    return result(finished(study, "--quick", *OPTIONS.get(study, ("--blocks", "3")), limit_s=300))


def per_row(study: str, number: str, where: str = "") -> dict[str, Any]:
    """Row -> this number of its analysed cell, of those whose id has `where` in it."""
    cells = quick(study)["analysis"]["cells"]
    return {cell["id"].split("/")[0]: cell[number] for cell in cells if where in cell["id"]}


# All but one are slow; fiveway is tests/stack/test_bench.py's, endpoint test_endpoint.py's, peers test_peers.py's.
HERE = [name for name in STUDIES if name not in ("fiveway", "endpoint", "peers")]
every_study = pytest.mark.parametrize(
    "study", [pytest.param(name, marks=() if name == DEFAULT else pytest.mark.slow) for name in HERE]
)


@every_study
def test_every_row_is_measured_and_every_count_holds(study: str) -> None:
    """Nothing fails; the servers counted what the client sent, where they can; a gather is whole; a caller keeps one
    connection, where its row has any and keeps it."""
    found = quick(study)
    assert {cell["name"] for cell in found["cells"]} == {cell.name for cell in STUDIES[study].cells(True)}
    for about, cell, visit in answered(found):
        row = cell["name"]
        if cell["gather"]:
            assert visit["requests"] % cell["users"] == 0, about
        if row in LIMITS:
            continue
        if row.startswith("frames-"):
            assert visit["connections"] == (1 if "http" in row or "grpc" in row else 0), about
            assert visit["server_requests"] is None, about
            assert ("server.cpu" in visit["stages_ms"]) is (row != "frames-in-process"), about
            assert visit["client_cpu"] > 0, about
            continue
        one_stream = study == "base" and row.startswith("echo-grpc-stream")
        assert visit["server_requests"] == (None if one_stream else visit["requests"]), about
        assert visit["edge_connections"] == (visit["connections"] if cell["target"] == "edge" else None), about
        assert (visit["connections"] == cell["users"]) is (row != "vectors-grpc-list-new"), about
        assert visit["encode_ms"] > 0 or study in ("distance", "format"), about
        assert study == "format" or WAYS[row].format.generator or visit["decode_ms"] > 0, about


@every_study
def test_all_rows_agree_before_they_are_timed(study: str) -> None:
    """Whatever carried it: the same vectors, frames, sums, and the same embedding."""
    found = quick(study)
    assert set(found["parity"]) == {cell.name for cell in STUDIES[study].cells(True)}
    assert {name: one for name, one in found["parity"].items() if not one["agrees"]} == {}
    assert all(one["cosine"] >= 0.999 for one in found["parity"].values() if one["cosine"] is not None)


@every_study
def test_every_claim_has_a_verdict(study: str) -> None:
    """One of four for each; only what differs as the study says is compared; its question has an answer."""
    found = quick(study)
    said = {one["id"]: one["verdict"] for one in found["analysis"]["hypotheses"]}
    assert list(said) == list(STUDIES[study].claims)
    assert set(said.values()) <= set(VERDICTS)
    targets = {cell["target"] for cell in found["cells"]}
    compared = {*STUDIES[study].pairs.values(), *(["edge"] if len(targets) > 1 else [])}
    assert {ratio["kind"] for ratio in found["analysis"]["ratios"]} <= compared
    assert (
        STUDIES[study].answer(msgspec.convert(found, Result)) or study == "distance"
    )  # its answer is across the world, its quick form is not


@pytest.mark.slow
def test_a_study_starts_the_servers_that_do_not_run() -> None:
    """One that was stopped is healthy again when the study asks it; the stack is not touched."""
    before = {name: container(name)["Id"] for name in ("edge", "echo-http", "triton")}
    docker("compose", "--profile", "transport", "stop", "echo-grpc")
    status, said, _ = bench("base", "--quick", "--routes", "echo-grpc-structured", "--seconds", "0.5")
    assert "Starting what the study asks: echo-grpc\n" in said
    assert status == 0, said
    assert health(container("echo-grpc")) == "healthy"
    assert {name: container(name)["Id"] for name in before} == before


FRAME, TENSOR, FP64S, VECTORS = 1280 * 720 * 3, 602_112, 800_000, 600_000
"""Bytes of what is asked or answered: a 720p frame, a photo's FP32, 100,000 numbers, 10,000 vectors in protobuf."""
# Study, direction, row: on the wire it is at least and at most so many times another row, or so many bytes.
WIRE: list[tuple[str, str, str, float, float, str | int]] = [
    ("base", "received", "echo-grpc-structured-100", 1.5, 10, "echo-grpc-structured"),
    ("base", "sent", "echo-grpc-structured-100", 0.8, 1.2, "echo-grpc-structured"),
    ("distance", "received", "vectors-protobuf", 1, 1.13, VECTORS),
    ("distance", "received", "vectors-grpc-list", 1, 1.13, VECTORS),
    ("distance", "received", "vectors-grpc-stream-1000", 1, 1.13, VECTORS),
    ("distance", "received", "vectors-grpc-list-new", 1, 1.13, VECTORS),
    ("distance", "received", "vectors-json", 2, 3, "vectors-protobuf"),
    ("encodings", "sent", "seldon-grpc-tftensor", 1, 1.12, FP64S),
    ("encodings", "sent", "seldon-grpc-ndarray", 1.12, 2, FP64S),
    ("encodings", "sent", "onnx-grpc", 1, 1.1, TENSOR),
    ("encodings", "sent", "onnx-http-json", 2, 10, "onnx-http"),
    ("format", "sent", "onnx-http", 1, 1.1, TENSOR),
    ("format", "sent", "onnx-grpc", 1, 1.1, TENSOR),
    *(("format", "sent", row, 0, 0.5, TENSOR) for row in ("jpeg-http", "onnx-jpeg-http", "onnx-jpeg-grpc")),
    ("frames", "sent", "frames-http-hex", 2, 2.2, FRAME),
    ("frames", "sent", "frames-http-base64", 1.33, 1.47, FRAME),
    ("frames", "sent", "frames-http-pybase64", 1.33, 1.47, FRAME),
    ("frames", "sent", "frames-grpc", 1, 1.1, FRAME),
    ("frames", "sent", "frames-http-jpeg", 0.01, 0.33, FRAME),
    *(("frames", "sent", f"frames-{row}", 0, 1000, 1) for row in ("in-process", "shm-zmq", "shm-zmq-double", "zmq")),
    ("shm", "sent", "onnx-grpc", 1, 1.1, TENSOR),
    *(("shm", "sent", row, 0, 1000, 1) for row in ("onnx-shm", "memcpy")),
    ("torchserve", "sent", "torchserve-http-base64", 1.3, 1.4, "torchserve-http"),
    ("torchserve", "sent", "torchserve-grpc-base64", 1.3, 1.4, "torchserve-grpc"),
    ("torchserve", "received", "typed-grpc", 0, 1, "torchserve-grpc"),
]


@every_study
def test_bytes_on_the_wire(study: str) -> None:
    """A text form is more than bytes, a tensor more than a JPEG, and shared memory sends next to nothing."""
    for _, way, row, least, most, of in (line for line in WIRE if line[0] == study):
        found = per_row(study, f"{way}_bytes_per_image", "/10000/" if study == "distance" else "")
        unit = of if isinstance(of, int) else found[of]
        assert least * unit <= (found[row] or 0) <= most * unit, (way, row)


@pytest.mark.slow
def test_a_call_takes_at_least_its_round_trips() -> None:
    """12 ms and 600 kB at 100 Mbit/s; more where the window is small, or the connection new."""
    p50 = {row: found["value"] for row, found in per_row("distance", "p50_ms", "/10000/").items() if found}
    least = {"vectors-protobuf": 55, "vectors-grpc-list": 55, "vectors-grpc-list-64k": 65}
    least |= {"vectors-grpc-stream-1000-64k": 75, "vectors-grpc-list-new": 85}
    assert {row: p50[row] for row, ms in least.items() if row in p50 and p50[row] < ms} == {}


def test_the_distance_is_waited_for() -> None:
    """No call over an odd round trip takes less."""
    round_trip_ms = 25
    assert {cell["distance"] for cell in quick("format")["cells"]} == {"", f"{round_trip_ms}ms-100mbit"}
    for cell, visit in visits(quick("format")):
        if cell["distance"]:
            assert visit["mean_ms"] >= round_trip_ms, cell["id"]


@pytest.mark.slow
def test_frames_have_no_gate_and_leave_nothing_in_the_shared_memory() -> None:
    """Both sides' CPU is what that study measures; its killed processes take their frames with them."""
    marks = [mark for cell in quick("frames")["analysis"]["cells"] for mark in cell["marks"]]
    assert [mark for mark in marks if "of a core" in mark] == []
    assert docker("exec", container("frames")["Id"], "ls", "/frames").split() == ["zmq"]


@pytest.mark.slow
def test_shared_memory_with_triton_is_given_back() -> None:
    """No file of the load's is left in Triton's memory, and Triton itself has no region any more."""
    triton = container("triton")["Id"]
    quick("shm")
    assert [name for name in docker("exec", triton, "ls", "/dev/shm").split() if name.startswith("fiveway-")] == []
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/v2/systemsharedmemory/status').read())"
    assert docker("exec", triton, "python3", "-c", ask).strip() == "b'[]'"


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


@pytest.mark.slow
def test_a_distance_can_be_put_in_front_of_any_route() -> None:
    """Of the 5-way comparison: far and near in one run; the report names both, and what is far is late."""
    some = ("--routes", "onnx-http,onnx-grpc", "--batches", "1", "--concurrency", "1")
    folder = finished("fiveway", "--quick", *some, "--distance", f"{NEAR},{FAR}", "--seconds", "1.5", "--blocks", "3")
    run = result(folder)
    assert {(cell["route"], cell["distance"]) for cell in run["cells"]} == {
        (route, where) for route in ("onnx-http", "onnx-grpc") for where in (NEAR, FAR)
    }
    medians = {cell["id"]: cell["p50_ms"]["value"] for cell in run["analysis"]["cells"]}
    for cell, visit in visits(run):
        assert visit["failures"] == 0, visit["errors"]
        assert visit["requests"] == visit["server_requests"]
        assert visit["connections"] == 1, cell["id"]
        # A round trip, and 602 kB at 100 Mbit/s.
        assert medians[cell["id"]] >= (150 + 48 if cell["distance"] == FAR else 48), cell["id"]
    for page in ("report.md", "report.html"):
        text = (folder / page).read_text()
        assert NEAR in text, page
        assert FAR in text, page
