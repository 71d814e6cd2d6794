"""The CPU image's `onnxruntime` backend serves any ONNX model of a standard repository, over HTTP and gRPC.

A container of the image serves tests/stack/onnx_models.py, with the hardening of compose/common.yaml. Values are
asserted, not shapes: this server's stub can answer 200 with the right shapes and wrong numbers.
"""

import json
import os
import shlex
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from chaos.docker import container, docker, wait_until
from tests.clients import tensor
from tests.stack.onnx_models import NUMBERS, TABLE, WEIGHTS, make_broken, make_repository

IMAGE = os.environ.get("TRITON_IMAGE", "fiveway-triton:local")
HARDENED = shlex.split(
    "--init --user=65532:65532 --read-only --tmpfs=/tmp:mode=1777 --cap-drop=ALL --security-opt=no-new-privileges "
    "--shm-size=256m --memory=3g --pids-limit=512"
)
HEALTH_CHECK = "python3 /app/servers/triton/health.py"
# Compose's check, as often: three that fail in a row end the server, and a stop may take it longer than three of 1 s.
HEALTH = [f"--health-cmd={HEALTH_CHECK}", "--health-interval=5s", "--health-timeout=30s", "--health-retries=3"]

Array = NDArray[Any]
Ask = Callable[..., dict[str, Array]]


@contextmanager
def serving(
    volumes: Mapping[str, Path], *options: str, command: Sequence[str] = (), image: str = IMAGE
) -> Iterator[str]:
    """The name of a hardened container of the image, started with these folders copied to these paths."""
    name = f"test-server-{uuid.uuid4().hex[:8]}"
    ports = [f"--publish=127.0.0.1::{port}" for port in (8000, 8001, 8002)]
    # No bind mount: the tests may themselves run in a container, whose files the engine does not see.
    mounts = [f"--volume={path}" for path in volumes]
    docker("create", f"--name={name}", *HARDENED, *ports, *mounts, *options, image, *command)
    try:
        for path, folder in volumes.items():
            docker("cp", f"{folder}/.", f"{name}:{path}")
        docker("start", name)
        yield name
    finally:
        print(docker("logs", name))
        docker("rm", "--force", "--volumes", name)


def address(name: str, port: int) -> str:
    """host:port of a container's published port."""
    return docker("port", name, f"{port}/tcp").splitlines()[0]


@dataclass(frozen=True)
class Triton:
    """A running container and its ports, as host:port."""

    name: str
    http: str
    grpc: str


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A container that serves every good model and refuses every broken one."""
    folder = tmp_path_factory.mktemp("repository")
    make_repository(folder)
    make_broken(folder)
    with serving({"/repository": folder}, *HEALTH, "--env=MODEL_REPOSITORY=/repository") as name:
        found = Triton(name, *(address(name, port) for port in (8000, 8001)))
        wait_until(lambda: status(f"http://{found.http}/v2/health/live") == 200, "the server answers", seconds=90)
        yield found


@pytest.fixture(params=["http", "grpc"])
def ask(request: pytest.FixtureRequest, triton: Triton) -> Iterator[Ask]:
    """One inference over the parameter's protocol: ask(model, inputs, outputs, version) -> outputs by name."""
    if request.param == "http":
        library, client = tritonclient.http, tritonclient.http.InferenceServerClient(triton.http, concurrency=16)
    else:
        library, client = tritonclient.grpc, tritonclient.grpc.InferenceServerClient(triton.grpc)

    def infer(
        model: str, inputs: Mapping[str, Array], outputs: list[str] | None = None, version: str = ""
    ) -> dict[str, Array]:
        tensors = [tensor(library, name, array) for name, array in inputs.items()]
        wanted = [library.InferRequestedOutput(name) for name in outputs] if outputs else None
        result = client.infer(model, tensors, outputs=wanted, model_version=version)
        said = result.get_response(**({"as_json": True} if library is tritonclient.grpc else {}))
        return {one["name"]: result.as_numpy(one["name"]) for one in said["outputs"]}

    with client:
        yield infer


def status(url: str) -> int:
    """The HTTP status of a GET; 0 where nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def get(triton: Triton, path: str, body: bytes | None = None) -> Any:
    """The JSON that Triton answers: to a GET, or to a POST where there is a body."""
    with urllib.request.urlopen(f"http://{triton.http}{path}", body, timeout=5) as response:
        return json.loads(response.read())


def is_invalid(error: InferenceServerException) -> bool:
    return error.status() in ("400", "StatusCode.INVALID_ARGUMENT")


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_type_keeps_its_values(ask: Ask, name: str) -> None:
    """Extremes included, each type comes back as it went in, twice side by side."""
    dtype = np.dtype(triton_to_np_dtype(name))
    values = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    if dtype.kind in "iuf":
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        values[0] = [limits.min, 7, limits.max]
    inputs = {f"in_{other}": np.ones((2, 3), triton_to_np_dtype(other)) for other in NUMBERS} | {f"in_{name}": values}
    answer = ask("every_type", inputs, [f"out_{name}"])
    assert list(answer) == [f"out_{name}"]
    assert answer[f"out_{name}"].dtype == dtype
    np.testing.assert_array_equal(answer[f"out_{name}"], np.concatenate([values, values], axis=1))


def test_requests_that_wait_together_run_together(ask: Ask, triton: Triton) -> None:
    """Concurrent requests of different batch sizes share runs, and each gets its own rows and outputs back: those that
    it asks for, or all."""
    (before,) = get(triton, "/v2/models/arithmetic/stats")["model_stats"]
    rows = np.random.default_rng(5).random((24, 3), np.float32)
    cuts = [rows[start : start + size] for start, size in ((0, 1), (1, 2), (3, 3), (6, 1), (7, 5), (12, 4), (16, 8))]
    wanted = [["sum"], ["product"], ["sum", "difference"], None]

    def call(index: int) -> dict[str, Array]:
        return ask("arithmetic", {"a": cuts[index], "b": cuts[index] * 2}, wanted[index % 4])

    with ThreadPoolExecutor(len(cuts)) as pool:
        results = list(pool.map(call, range(len(cuts))))
    for index, (cut, result) in enumerate(zip(cuts, results, strict=True)):
        expected = {"sum": cut * 3, "difference": -cut, "product": cut * cut * 2}
        assert sorted(result) == sorted(wanted[index % 4] or expected)
        for name, value in result.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-6)
    (after,) = get(triton, "/v2/models/arithmetic/stats")["model_stats"]
    images, runs = (after[name] - before[name] for name in ("inference_count", "execution_count"))
    requests = after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"]
    assert images == 24 + requests - len(cuts)  # the health check may have asked meanwhile, each time with one row
    assert runs < requests


def test_one_bad_request_does_not_fail_its_batch(ask: Ask) -> None:
    """An index beyond the table is refused; the requests that ran in the same batch get their rows."""

    def call(index: int) -> Array | InferenceServerException:
        try:
            return ask("lookup", {"index": np.array([[index]], np.int64)})["row"]
        except InferenceServerException as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        good, bad, other = pool.map(call, [1, 99, 3])
    np.testing.assert_array_equal(good, TABLE[[1]])
    np.testing.assert_array_equal(other, TABLE[[3]])
    assert isinstance(bad, InferenceServerException), bad
    assert is_invalid(bad), bad
    assert "out of data bounds" in bad.message()


def test_strings(ask: Ask) -> None:
    """Text of any script and length, empty included, goes in and comes out as bytes; no text at all too."""
    words = np.array([["", "a", "Grüße, 世界"], ["x" * 5000, "two words", "\0 inside"]], dtype=object)
    answer = ask("strings", {"text": words})["shout"]
    assert [[element.decode() for element in row] for row in answer] == [[f"{word}!" for word in row] for row in words]
    assert ask("strings", {"text": np.empty((1, 0), dtype=object)})["shout"].size == 0


def test_bytes_that_are_not_text(ask: Ask) -> None:
    """ONNX strings are UTF-8: anything else is refused with the name of the input."""
    with pytest.raises(InferenceServerException, match="input 'text' holds an element that is not UTF-8") as refused:
        ask("strings", {"text": np.array([[b"\xff\xfe"]], dtype=object)})
    assert is_invalid(refused.value)


def test_no_config_with_batching(ask: Ask, triton: Triton) -> None:
    """Without a config.pbtxt a graph with a variable first dimension is batched, as by Triton's own backend."""
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(ask("no_config", {"row": rows})["total"], (rows @ WEIGHTS).sum(axis=1, keepdims=True))
    config = get(triton, "/v2/models/no_config/config")
    assert config["max_batch_size"] == 4
    assert "dynamic_batching" in config
    assert config["output"][0]["dims"] == [1]
    assert config["output"][0]["reshape"] == {"shape": []}


def test_no_config_without_batching(ask: Ask, triton: Triton) -> None:
    """Fixed dims and scalars: max_batch_size 0, a scalar is one element."""
    matrix, factor = np.array([[1, 2, 3], [4, 5, -6]], np.float64), np.array([-2.5], np.float64)
    answer = ask("no_batching", {"matrix": matrix, "factor": factor})
    np.testing.assert_array_equal(answer["scaled"], matrix * factor)
    np.testing.assert_array_equal(answer["largest"], [15.0])
    assert get(triton, "/v2/models/no_batching/config")["max_batch_size"] == 0


@pytest.mark.parametrize("shape", [(1, 2, 3), (3, 4, 1), (8, 1, 7), (2, 0, 3)])
def test_variable_dims(ask: Ask, shape: tuple[int, ...]) -> None:
    """Every request brings its own shape and gets the shape that follows from it; without elements too."""
    matrix = np.arange(np.prod(shape), dtype=np.int64).reshape(shape) - 5
    answer = ask("variable_dims", {"matrix": matrix})
    np.testing.assert_array_equal(answer["turned"], matrix.transpose(0, 2, 1))
    np.testing.assert_array_equal(answer["columns"], matrix.sum(axis=1))


def test_versions_files_and_accelerators(ask: Ask, triton: Triton) -> None:
    """Both versions serve, from a file of another name, on OpenVINO: and what really ran can be read back."""
    x = np.array([[1, -1, 0.5, 3]], np.float32)
    for version in (1, 2):
        answer = ask("accelerated", {"x": x}, version=str(version))
        np.testing.assert_array_equal(answer["y"], np.maximum(x * version, 0))
    table = [line.split() for line in docker("exec", triton.name, "providers").splitlines()]
    assert table[0] == ["MODEL", "VERSION", "PROVIDER", "NODES"]
    assert [row for row in table if row[0] == "accelerated"] == [
        ["accelerated", version, "OpenVINOExecutionProvider", "1"] for version in "12"
    ]
    assert ["arithmetic", "1", "CPUExecutionProvider", "3"] in table
    counted = 'fiveway_execution_provider_nodes{model="every_type",provider="CPUExecutionProvider",version="1"} 12'
    with urllib.request.urlopen(f"http://{address(triton.name, 8002)}/metrics", timeout=5) as response:
        assert counted in response.read().decode()


RUNS = """
import ctypes
import numpy as np
from servers.triton.backends.onnxruntime.engine import Engine

class Heap(ctypes.Structure):  # mallinfo2(3)
    _fields_ = [(name, ctypes.c_size_t) for name in "arena o s h mapped u f used free keep".split()]

heap = ctypes.CDLL("libc.so.6").mallinfo2
heap.restype = Heap
used = lambda: heap().used + heap().mapped
engine = Engine("/artifacts/repository/efficientnet_lite0/1/model.onnx", {"max_batch_size": 32, "input": []})
engine.first_inference()
feeds = {"image": np.zeros((1, 3, 224, 224), np.float32)}
for _ in range(50): engine.run(["embedding"], feeds)
before = used()
for _ in range(600): engine.run(["embedding"], feeds)
print(used() - before)
"""


def test_an_inference_leaves_nothing_behind() -> None:
    """In the memory of its process: with half a kilobyte in each, an hour of thirty a second would be 50 MB."""
    found = docker("exec", "--workdir=/app", container("triton")["Id"], "python3", "-c", RUNS)
    assert int(found) < 65_536, "bytes after 600 inferences"


@pytest.mark.parametrize(
    ("model", "inputs", "says"),
    [
        ("arithmetic", {"a": (17, 3), "b": (17, 3)}, "batch-size must be <= 16"),
        ("arithmetic", {"a": (0, 3), "b": (0, 3)}, ""),
        ("arithmetic", {"a": (1, 4), "b": (1, 3)}, "unexpected shape for input 'a'"),
        ("arithmetic", {"a": (1, 3)}, "expected 2 inputs but got 1"),
        ("arithmetic", {"a": (1, 3), "b": (1, 3), "c": (1, 3)}, "expected 2 inputs but got 3"),
        ("arithmetic", {"a": (1, 3), "z": (1, 3)}, "unexpected inference input 'z'"),
        ("no_batching", {"matrix": (2, 3), "factor": (1,)}, "'FP32', but model 'no_batching' expects 'FP64'"),
    ],
)
def test_bad_requests(ask: Ask, model: str, inputs: dict[str, tuple[int, ...]], says: str) -> None:
    """4xx / INVALID_ARGUMENT with the reason, and the next good request works."""
    with pytest.raises(InferenceServerException) as refused:
        ask(model, {name: np.zeros(shape, np.float32) for name, shape in inputs.items()})
    assert is_invalid(refused.value), refused.value
    assert says in refused.value.message()
    assert ask("lookup", {"index": np.array([[2]], np.int64)})["row"].tolist() == [TABLE[2].tolist()]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("wrong_name", "unexpected input 'z' in config.pbtxt: the graph has 'x'"),
        ("wrong_type", "input 'x' is TYPE_INT32 in config.pbtxt and TYPE_FP32 in the graph"),
        (
            "cannot_batch",
            "input 'x' has dims [-1, 4] (the first is the batch, from max_batch_size > 0) in config.pbtxt",
        ),
        ("wrong_accelerator", "unknown cpu_execution_accelerator 'magic': this image has 'openvino'"),
        ("corrupt", "Protobuf parsing failed"),
    ],
)
def test_broken_models_say_why(triton: Triton, model: str, says: str) -> None:
    """A model that cannot be served is not ready and names the reason; all others serve (every test above)."""
    entry = next(entry for entry in get(triton, "/v2/repository/index", b"") if entry["name"] == model)
    assert entry["state"] == "UNAVAILABLE"
    assert says in entry["reason"]
    assert status(f"http://{triton.http}/v2/models/{model}/ready") == 400


def health(triton: Triton) -> tuple[int, str]:
    """The exit code and the words of the health check, run now."""
    command = ["docker", "exec", triton.name, *HEALTH_CHECK.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def processes(triton: Triton, model: str) -> list[str]:
    """The pids of a model's stub processes, inside the container."""
    script = 'for p in /proc/[0-9]*; do printf "%s " ${p#/proc/}; tr "\\0" " " <$p/cmdline 2>/dev/null; echo; done'
    lines = [line.split() for line in docker("exec", triton.name, "sh", "-c", script).splitlines()]
    return [line[0] for line in lines if len(line) > 2 and "stub" in line[1] and f"/{model}/" in line[2]]


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["KILL", "STOP"])
def test_a_dead_or_hung_model_is_healed(triton: Triton, signal: str) -> None:
    """Its readiness endpoint stays green; Docker's health check sees it and brings it back."""

    def answer() -> list[float] | None:
        body = {"inputs": [{"name": "row", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]}]}
        try:
            return list(get(triton, "/v2/models/no_config/infer", json.dumps(body).encode())["outputs"][0]["data"])
        except OSError:
            return None

    # A model that has not answered yet may still be starting, which is not a failure.
    wait_until(lambda: "no_config.1: answer" in health(triton)[1], "the health check has seen it answer", seconds=60)
    killed = processes(triton, "no_config")
    docker("exec", triton.name, "sh", "-c", f"kill -{signal} {' '.join(killed)}")
    assert answer() is None
    assert status(f"http://{triton.http}/v2/models/no_config/ready") == 200
    wait_until(lambda: answer() == [float(WEIGHTS.sum())], "the model answers again", seconds=90)
    assert not set(killed) & set(processes(triton, "no_config"))


def test_broken_models_make_it_unhealthy_without_restarts(triton: Triton) -> None:
    """They are named, the good ones count as alive, and nothing is loaded again and again."""
    code, words = health(triton)
    assert code == 1
    assert "corrupt.1: UNAVAILABLE" in words
    assert "arithmetic.1: answer" in words
    assert docker("inspect", "--format={{.State.Health.Status}} {{.RestartCount}}", triton.name).split()[-1] == "0"


STUBBORN = """
import atexit, time

class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]
        if self.name == "at_its_exit":
            atexit.register(time.sleep, 600)

    def execute(self, requests):
        return []

    def finalize(self):
        if self.name == "in_finalize":
            time.sleep(600)
"""


@pytest.mark.slow
def test_a_model_that_hangs_in_its_end_is_unloaded(tmp_path: Path) -> None:
    """Triton alone would wait for its process without a limit, and hold its memory."""
    tensors = 'input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }'
    for name in ("at_its_exit", "in_finalize"):
        code = tmp_path / name / "1" / "model.py"
        code.parent.mkdir(parents=True)
        code.write_text(STUBBORN)
        (tmp_path / name / "config.pbtxt").write_text(
            f'backend: "python" {tensors} instance_group {{ kind: KIND_CPU }}'
        )
    with serving({"/repository": tmp_path}, "--env=MODEL_REPOSITORY=/repository") as name:
        http = address(name, 8000)
        wait_until(lambda: status(f"http://{http}/v2/health/ready") == 200, "the server answers", seconds=90)
        unload = "from servers.triton import swap; swap.unload_all_but([], patience=3)"
        docker("exec", "--workdir=/app", name, "python3", "-c", unload)
        index = get(Triton(name, http, ""), "/v2/repository/index", b"")
        assert [entry["reason"] for entry in index] == ["unloaded"] * 2
