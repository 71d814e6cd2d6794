"""The studies in their quick forms: each row is measured, each count holds, each claim is judged."""

import functools
from pathlib import Path
from typing import Any

import pytest

from bench.studies import STUDIES
from tests.docker import container, docker
from tests.stack.runs import answered, bench, finished, result, visits

DEFAULT = "format"
"""The one whose run is in the default tier: real routes, near and far."""
FAR, NEAR = "150ms-100mbit", "0ms-100mbit"
# Twice its time: on a busy machine the slowest rows have few calls a second.
OPTIONS = {"frames": ("--seconds", "1.4")}

pytestmark = pytest.mark.timeout(330)


@functools.cache
def quick(study: str) -> dict[str, Any]:
    """The result of its quick form, run when it is first asked for."""
    return finished(study, "--quick", *OPTIONS.get(study, ()), limit_s=300)


def per_row(study: str, number: str, where: str = "") -> dict[str, Any]:
    """Row -> this number of its analysed cell, of those whose id has `where` in it."""
    cells = quick(study)["analysis"]["cells"]
    return {cell["id"].split("/")[0]: cell[number] for cell in cells if where in cell["id"]}


def studies(*names: str) -> pytest.MarkDecorator:
    """Each by itself: all but one are slow."""
    return pytest.mark.parametrize(
        "study", [pytest.param(name, marks=() if name == DEFAULT else pytest.mark.slow) for name in names]
    )


every_study = studies(*(name for name in STUDIES if name != "fiveway"))  # that is tests/stack/test_bench.py's


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
        if row.startswith("frames-"):
            assert visit["connections"] == (1 if "http" in row or "grpc" in row else 0), about
            assert visit["server_requests"] is None, about
            assert ("server.cpu" in visit["stages_ms"]) is (row != "frames-in-process"), about
            assert visit["client_cpu"] > 0, about
            continue
        one_stream = study == "base" and row.startswith("echo-grpc-stream")
        assert visit["server_requests"] == (None if one_stream else visit["requests"]), about
        assert visit["connections"] == visit["edge_connections"], about
        assert (visit["connections"] == cell["users"]) is (row != "vectors-grpc-list-new"), about
        assert visit["encode_ms"] > 0 or study in ("distance", "format"), about
        assert study == "format" or visit["decode_ms"] > 0, about


@every_study
def test_all_rows_agree_before_they_are_timed(study: str) -> None:
    """Whatever carried it: the same vectors, frames, sums, and the same embedding."""
    found = quick(study)
    assert set(found["parity"]) == {cell.name for cell in STUDIES[study].cells(True)}
    assert {name: one for name, one in found["parity"].items() if not one["agrees"]} == {}
    assert all(one["cosine"] >= 0.999 for one in found["parity"].values() if one["cosine"] is not None)


@every_study
def test_every_claim_has_a_verdict(study: str) -> None:
    """One of three for each; only what differs as the study says is compared; its question has an answer."""
    found = quick(study)
    said = {one["id"]: one["verdict"] for one in found["analysis"]["hypotheses"]}
    assert list(said) == [claim.id for claim in STUDIES[study].claims]
    assert set(said.values()) <= {"reproduced", "not reproduced", "cannot tell"}
    assert {ratio["kind"] for ratio in found["analysis"]["ratios"]} <= set(STUDIES[study].pairs.values())
    assert STUDIES[study].answer(found) or study == "distance"  # its answer is across the world, its quick form is not


@pytest.mark.slow
def test_a_hundred_entries_are_more_bytes_than_ten() -> None:
    """The original's answers were larger over gRPC, of the same request."""
    hundred, ten = "echo-grpc-structured-100", "echo-grpc-structured"
    received, sent = (per_row("base", f"{way}_bytes_per_image") for way in ("received", "sent"))
    assert received[hundred] > 1.5 * received[ten]
    assert sent[hundred] == pytest.approx(sent[ten], rel=0.2)


@pytest.mark.slow
def test_vectors_are_60_bytes_each_in_protobuf() -> None:
    """And two to three times as many in JSON."""
    received = per_row("distance", "received_bytes_per_image", "/10000/")
    for row in ("vectors-protobuf", "vectors-grpc-list", "vectors-grpc-stream-1000", "vectors-grpc-list-new"):
        assert 600_000 < received[row] < 680_000, row
    assert 2 < received["vectors-json"] / received["vectors-protobuf"] < 3


@pytest.mark.slow
def test_a_call_takes_at_least_its_round_trips() -> None:
    """12 ms and 600 kB at 100 Mbit/s; more where the window is small, or the connection new."""
    p50 = {row: found["value"] for row, found in per_row("distance", "p50_ms", "/10000/").items() if found}
    least = {"vectors-protobuf": 55, "vectors-grpc-list": 55, "vectors-grpc-list-64k": 65}
    least |= {"vectors-grpc-stream-1000-64k": 75, "vectors-grpc-list-new": 85}
    assert {row: p50[row] for row, ms in least.items() if row in p50 and p50[row] < ms} == {}


@pytest.mark.slow
def test_bytes_are_smaller_than_numbers() -> None:
    """On the wire: an FP64 as bytes is 8, an FP32 4, and in JSON a fraction of a photo's tensor is many digits."""
    sent = per_row("encodings", "sent_bytes_per_image")
    assert 800_000 < sent["seldon-grpc-tftensor"] < 900_000 < sent["seldon-grpc-ndarray"]
    assert 602_112 < sent["onnx-grpc"] < 660_000
    assert sent["onnx-http-json"] > 2 * sent["onnx-http"]


def test_the_distance_is_waited_for() -> None:
    """No call over an odd round trip takes less, and a tensor's bytes are more than a JPEG's."""
    round_trip_ms = 25
    assert {cell["distance"] for cell in quick("format")["cells"]} == {"", f"{round_trip_ms}ms-100mbit"}
    for cell, visit in visits(quick("format")):
        if cell["distance"]:
            assert visit["mean_ms"] >= round_trip_ms, cell["id"]
    for row, sent in per_row("format", "sent_bytes_per_image").items():
        assert (sent > 602_112) is (row in ("onnx-http", "onnx-grpc")), row


@pytest.mark.slow
def test_pixels_go_over_the_network_only_where_they_must() -> None:
    """Base64 is a third larger than the frame and hex twice as large; in shared memory next to nothing is sent."""
    sent = {row: found or 0 for row, found in per_row("frames", "sent_bytes_per_image").items()}
    frame = 1280 * 720 * 3
    for row, least in (("http-hex", 2), ("http-base64", 4 / 3), ("http-pybase64", 4 / 3), ("grpc", 1)):
        assert least * frame < sent[f"frames-{row}"] < 1.1 * least * frame
    assert 0 < sent["frames-http-jpeg"] < frame / 3
    assert max(sent[f"frames-{row}"] for row in ("in-process", "shm-zmq", "shm-zmq-double", "zmq")) < 1000


@pytest.mark.slow
def test_frames_have_no_gate_and_leave_nothing_in_the_shared_memory() -> None:
    """Both sides' CPU is what that study measures; its killed processes take their frames with them."""
    marks = [mark for cell in quick("frames")["analysis"]["cells"] for mark in cell["marks"]]
    assert [mark for mark in marks if "of a core" in mark] == []
    assert docker("exec", container("frames")["Id"], "ls", "/frames").split() == ["zmq"]


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
def test_base64_is_a_third_more_and_a_typed_answer_is_less() -> None:
    """On the wire: of the photo over both protocols; a packed embedding against one in JSON."""
    sent = per_row("torchserve", "sent_bytes_per_image")
    for name in ("torchserve-http", "torchserve-grpc"):
        assert 1.3 < sent[f"{name}-base64"] / sent[name] < 1.4
    received = per_row("torchserve", "received_bytes_per_image")
    assert received["typed-grpc"] < received["torchserve-grpc"]


@pytest.mark.slow
def test_a_distance_can_be_put_in_front_of_any_route() -> None:
    """Of the 5-way comparison: far and near in one run; the report names both, and what is far is late."""
    status, said, folder = bench(
        *("fiveway", "--quick", "--routes", "onnx-http,onnx-grpc", "--batches", "1", "--concurrency", "1"),
        *("--distance", f"{NEAR},{FAR}", "--seconds", "1.5"),
    )
    assert status == 0, said
    assert folder
    run = result(folder)
    assert {(cell["route"], cell["distance"]) for cell in run["cells"]} == {
        (route, where) for route in ("onnx-http", "onnx-grpc") for where in (NEAR, FAR)
    }
    medians = {cell["id"]: cell["p50_ms"]["value"] for cell in run["analysis"]["cells"]}
    for cell, visit in visits(run):
        assert visit["failures"] == 0, visit["errors"]
        assert visit["requests"] == visit["server_requests"]
        # A round trip, and 602 kB at 100 Mbit/s.
        assert medians[cell["id"]] >= (150 + 48 if cell["distance"] == FAR else 48), cell["id"]
    for page in ("report.md", "report.html"):
        text = (folder / page).read_text()
        assert NEAR in text, page
        assert FAR in text, page
