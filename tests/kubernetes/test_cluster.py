"""kubernetes/ on a real cluster, in the order of docs/kubernetes.md: its commands, and what is so after them.

scripts/test --kubernetes says which cluster. The tests build on each other: the first applies, the last deletes.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import yaml

from chaos.docker import wait_until
from gateways.core.serving import Serving
from tests.clients import tensor
from tests.repository import ROOT, certificate

HERE = ROOT / "tests/kubernetes"
# A folder of the repository: what is applied.
BASE = os.environ.get("OVERLAY", "kubernetes/base")
KUBECTL = ("kubectl", "--namespace", "fiveway")
WORKER = (*KUBECTL, "exec", "--stdin", "deployment/locust-worker", "--")
HEADLESS = ("python", "-m", "locustfiles.headless", "--seconds")
SERVERS = ("jpeg-http", "torchserve", "triton")
START_S = 900

pytestmark = pytest.mark.timeout(START_S + 300)


def kubectl(*arguments: str, timeout: float = 120) -> str:
    """stdout of one command, in the namespace of the stack unless the arguments name another."""
    done = subprocess.run([*KUBECTL, *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}"
    return done.stdout


def get(*arguments: str) -> Any:
    return json.loads(kubectl("get", *arguments, "--output", "json"))


def names(kind: str) -> set[str]:
    return {one["metadata"]["name"] for one in get(kind)["items"]}


def our_node() -> bool:
    """Whether scripts/test made it."""
    return bool(kubectl("get", "nodes", "--selector", "fiveway=tests", "--output", "name"))


def pods(app: str) -> list[Any]:
    """Those that nobody has deleted."""
    found: list[Any] = get("pods", "--selector", f"app={app}")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def condition(found: Any, kind: str) -> tuple[str, str]:
    """Status and message of one of its conditions."""
    every = found["status"].get("conditions", [])
    return next(((one["status"], one.get("message", "")) for one in every if one["type"] == kind), ("Unknown", ""))


def ready(app: str, count: int = 1) -> list[Any] | None:
    """So many pods and no more, if all are ready."""
    found = pods(app)
    return found if [condition(pod, "Ready")[0] for pod in found] == ["True"] * count else None


def scaled(count: int) -> list[Any]:
    """So many Tritons, ready."""
    kubectl("scale", "deployment/triton", "--replicas", str(count))
    return wait_until(lambda: ready("triton", count), f"not {count} Tritons are ready", seconds=START_S, every=2)


def write(folder: Path, *components: str) -> None:
    """A user's own overlay, as docs/kubernetes.md tells to make it."""
    near = os.path.relpath(ROOT, folder)
    content = {"resources": [f"{near}/{BASE}"], "components": [f"{near}/kubernetes/{one}" for one in components]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The overlay; what is left of the stack goes at the end."""
    folder: Path = tmp_path_factory.mktemp("mine")
    write(folder)
    if our_node():
        kubectl("apply", "-f", str(ROOT / "kubernetes/node/volumes.yaml"))
    yield folder
    kubectl("delete", "apiservice", "v1beta1.custom.metrics.k8s.io", "--ignore-not-found")
    kubectl("delete", "namespace", "fiveway", "monitoring", "--ignore-not-found", timeout=300)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the Job made."""
    folder: Path = tmp_path_factory.mktemp("artifacts")
    read = (*KUBECTL, "exec", "deployment/triton", "--", "tar", "-c", "-C", "/artifacts", ".")
    with subprocess.Popen(read, stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "--no-same-owner", "-C", folder], stdin=archive.stdout, check=True)
    return folder


@contextmanager
def edge() -> Iterator[str]:
    """Host and port of Envoy, through the API server as docs/kubernetes.md shows it."""
    command = [*KUBECTL, "port-forward", "service/edge", ":18080"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            said = forward.stdout.readline()
            found = re.search(r"127\.0\.0\.1:\d+", said)
            assert found, said
            yield found[0]
        finally:
            forward.terminate()


def answers(photo: bytes) -> bool:
    """Whether the JPEG server answers a photo, asked from a pod."""
    code = (
        "import sys, urllib.request as u; "
        "u.urlopen(u.Request('http://edge:8080/embed', sys.stdin.buffer.read(), {'content-type': 'image/jpeg'}))"
    )
    done = subprocess.run([*WORKER, "python3", "-c", code], input=photo, capture_output=True, check=False)
    return done.returncode == 0


def adapted() -> bool:
    """Whether the adapter of the tests answers at its service's address, asked from a pod."""
    code = (
        "import ssl, urllib.request as u; "
        "u.urlopen('https://adapter.monitoring.svc/apis/custom.metrics.k8s.io/v1beta1',"
        " timeout=5, context=ssl._create_unverified_context())"
    )
    return subprocess.run([*WORKER, "python3", "-c", code], capture_output=True, check=False).returncode == 0


def test_base_is_applied_and_all_pods_are_ready(overlay: Path) -> None:
    """The model is made, every server answers, and Locust's master has asked every route."""
    kubectl("apply", "-k", str(overlay))
    wait = ("wait", "--for=condition=available", f"--timeout={START_S}s", "deployment", "--all")
    kubectl(*wait, timeout=START_S + 30)
    states = {pod["metadata"]["labels"]["app"]: condition(pod, "Ready")[0] for pod in get("pods")["items"]}
    assert states == dict.fromkeys(names("deployments"), "True") | {"models": "False"}
    assert get("job", "models")["status"]["succeeded"] == 1


def test_every_route_gives_the_answers_of_pytorch(artifacts: Path) -> None:
    """The golden test, through the edge, against the model that the Job made."""
    with edge() as address:
        environment = os.environ | {"ARTIFACTS": str(artifacts), "EDGE_PORT": address.rpartition(":")[2]}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/golden"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout


def test_a_deleted_pod_comes_back(photo: bytes) -> None:
    """Another pod takes its place, and Envoy finds it."""
    (before,) = pods("jpeg-http")
    kubectl("delete", "pod", before["metadata"]["name"])
    wait_until(lambda: ready("jpeg-http"), "no new pod is ready", seconds=START_S)
    wait_until(lambda: answers(photo), "Envoy does not find the new pod", seconds=60)


def test_a_server_that_hangs_is_started_again(photo: bytes) -> None:
    """The readiness probe is the health check: it ends the server, and the kubelet starts its container again."""
    (before,) = pods("jpeg-http")
    name, server = before["metadata"]["name"], r"^gateways\.jpeg_http$"
    stop = f"for p in /proc/[0-9]*; do ! grep -qz '{server}' $p/cmdline || kill -STOP ${{p#/proc/}}; done"
    kubectl("exec", name, "--", "sh", "-c", stop)

    def healed() -> bool:
        (now,) = pods("jpeg-http")
        again = now["status"]["containerStatuses"][0]["restartCount"]
        return bool(again > before["status"]["containerStatuses"][0]["restartCount"] and ready("jpeg-http"))

    wait_until(healed, "the hung server was not started again", seconds=300, every=2)
    assert pods("jpeg-http")[0]["metadata"]["name"] == name
    wait_until(lambda: answers(photo), "Envoy does not ask it again", seconds=60)


def test_two_tritons_share_grpc_calls(artifacts: Path) -> None:
    """Over one connection of a client: Envoy spreads calls, not connections."""
    both = scaled(2)
    model = Serving.load(artifacts).model

    def successes(pod: Any) -> float:
        page = kubectl("get", "--raw", f"/api/v1/namespaces/fiveway/pods/{pod['metadata']['name']}:8002/proxy/metrics")
        return sum(map(float, re.findall(rf'^nv_inference_request_success\{{model="{model}".*\}} (\S+)$', page, re.M)))

    with edge() as address, tritonclient.grpc.InferenceServerClient(address) as client:
        image = tensor(tritonclient.grpc, "image", np.zeros((1, 3, 224, 224), np.float32))

        def shared() -> bool:
            """Health checks count too: at most a few of them come in between."""
            before = [successes(pod) for pod in both]
            for _ in range(60):
                client.infer(model, [image], client_timeout=60)
            gained = [successes(pod) - then for pod, then in zip(both, before, strict=True)]
            print(gained)
            return min(gained) >= 20

        wait_until(shared, "one Triton got nearly all the calls", seconds=60)
    scaled(1)


def test_pods_are_held_to_the_restricted_standard() -> None:
    """Every pod above was admitted under it; one that gives up none of its rights is not."""
    assert get("namespace", "fiveway")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    with pytest.raises(AssertionError, match='violates PodSecurity "restricted:latest"'):
        kubectl("run", "more", "--image", "fiveway-edge:local", "--dry-run=server")


def test_more_tritons_while_requests_wait(overlay: Path, tmp_path: Path) -> None:
    """The autoscaler reads the gauge of each pod, through an adapter of the tests, and adds one under load."""
    files = certificate(tmp_path, "adapter.monitoring.svc")
    kubectl("--namespace=", "apply", "-f", str(HERE / "adapter.yaml"))
    sources = (HERE / "adapter.py", files / "cert.pem", files / "key.pem")
    secret = ("create", "secret", "generic", "adapter", *(f"--from-file={path}" for path in sources))
    kubectl("--namespace", "monitoring", *secret)
    kubectl("--namespace", "monitoring", "wait", "--for=condition=ready", "pod/adapter", "--timeout=100s")
    wait_until(adapted, "no pod reaches the adapter by its service", seconds=60)
    kubectl("--namespace=", "apply", "-f", str(HERE / "adapter_api.yaml"))
    write(overlay, "autoscale")
    kubectl("apply", "-k", str(overlay))
    kubectl("rollout", "status", "deployment/triton", timeout=START_S)
    try:
        wait_until(lambda: condition(get("hpa", "triton"), "ScalingActive")[0] == "True", "no metric read", seconds=300)
    finally:
        print(condition(get("apiservice", "v1beta1.custom.metrics.k8s.io"), "Available"))
        print(kubectl("--namespace", "monitoring", "logs", "pod/adapter"))
    assert len(pods("triton")) == 1, "it scales without load"
    load = [*WORKER, *HEADLESS, "150", "--users", "40", "onnx-http"]
    with subprocess.Popen(load, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as asking:
        try:
            wait_until(lambda: len(pods("triton")) > 1, "no pod was added", seconds=140, every=2)
        finally:
            print(kubectl("describe", "hpa", "triton"))
            print(asking.communicate(timeout=300)[0])
    kubectl("delete", "hpa", "triton")
    scaled(1)


def test_locust_asks_every_route_and_none_fails() -> None:
    """Headless, from a worker's pod."""
    done = subprocess.run([*WORKER, *HEADLESS, "30"], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    result = json.loads(done.stdout)
    assert result["errors"] == []
    assert all(row["requests"] and not row["failures"] for row in result["routes"].values())


def offer(gpus: int) -> None:
    """Our node says that it has so many."""
    amount = {"nvidia.com/gpu": str(gpus)}
    status = json.dumps({"status": {"capacity": amount, "allocatable": amount}})
    kubectl("patch", "node", "node", "--subresource=status", "--type=merge", "--patch", status)


def test_each_of_three_servers_asks_for_a_gpu(overlay: Path) -> None:
    """Where there is one GPU, two of their pods wait for one; where there are three, all have a node."""
    if not our_node():
        pytest.skip("a node of somebody else keeps its capacity")
    write(overlay, "gpu")
    offer(1)
    kubectl("delete", "job", "models")
    kubectl("apply", "-k", str(overlay))

    def waiting() -> int | None:
        """How many of the pods wait for a GPU; None while there are older pods."""
        found = [pod for name in SERVERS for pod in pods(name)]
        asked = [pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu") for pod in found]
        states = [condition(pod, "PodScheduled") for pod in found]
        if asked != ["1"] * len(SERVERS) or ("Unknown", "") in states:
            return None
        return sum(status == "False" and "Insufficient nvidia.com/gpu" in message for status, message in states)

    wait_until(lambda: waiting() == 2, "not one pod of three has the GPU", seconds=180)
    offer(3)
    wait_until(lambda: waiting() == 0, "not every pod has a GPU", seconds=180)


def test_it_goes_without_a_trace(overlay: Path) -> None:
    """The namespace goes, and with it all that was applied, the claims too."""
    before = names("namespaces")
    kubectl("delete", "-k", str(overlay), timeout=300)
    assert names("namespaces") == before - {"fiveway"}
    bound = [one for one in get("persistentvolumes")["items"] if one["status"]["phase"] == "Bound"]
    assert "fiveway" not in {one["spec"]["claimRef"]["namespace"] for one in bound}
