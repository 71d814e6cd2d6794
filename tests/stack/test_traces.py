"""Traces of the running stack: a call of each client is one trace from the edge on, with a span of each hop."""

import json
from collections import defaultdict
from collections.abc import Iterator

import pytest

from chaos.docker import PROJECT, docker, wait_until
from tests.clients import CLIENTS, typed_json
from tests.otlp import CALLER, Span
from tests.repository import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECEIVER = f"{PROJECT}-otlp"
MADE = ("compose", "up", "--detach", "--wait", "--no-deps", "edge", "jpeg-http", "triton", "typed-grpc")


def hops(client: str) -> frozenset[str]:
    """The services whose spans its trace has. TorchServe makes none."""
    route, _, way = client.partition("/")
    behind = {"torchserve": set(), "jpeg": {"jpeg-http"}, "typed": {"typed-grpc"}}.get(route.split("-")[0], {"triton"})
    return frozenset({"edge", *behind, *(["triton"] if way == "triton" else [])})


@pytest.fixture(scope="module", autouse=True)
def _receiver() -> Iterator[None]:
    """It joins the servers' network, as a user's would; the servers are made anew before and after."""
    about = ("--name", RECEIVER, "--network", f"{PROJECT}_inside", "--volume", f"{ROOT}:{ROOT}:ro", "--workdir", ROOT)
    try:
        docker("run", "--detach", *map(str, about), "fiveway-tests", "python", "-m", "tests.otlp")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTLP_ENDPOINT", f"http://{RECEIVER}:4318")
            docker(*MADE, timeout=300)
        yield
    finally:
        docker("rm", "--force", RECEIVER)
        docker(*MADE, timeout=300)


def traces() -> dict[str, list[Span]]:
    """What has been received, by trace id."""
    found = defaultdict[str, list[Span]](list)
    for line in docker("logs", RECEIVER).splitlines():
        span = Span(**json.loads(line))
        found[span.trace].append(span)
    return found


def test_a_call_of_every_client_is_one_trace(photo: bytes) -> None:
    """It begins at the edge, under the route's name, and each hop of that client has a span in it. Over gRPC Triton
    sees no traceparent in some calls (docs/metrics.md), so a client whose trace is not whole is asked again."""

    def all_there() -> bool:
        every = traces().values()
        found = {(one.name, frozenset(span.service for span in spans)) for spans in every for one in spans}
        missing = [client for client in CLIENTS if (client.partition("/")[0], hops(client)) not in found]
        for client in missing:
            CLIENTS[client]([photo])
        print("no whole trace yet:", *missing)
        return not missing

    wait_until(all_there, "a whole trace of every client", seconds=240, every=8)
    assert all("edge" in {span.service for span in spans} for spans in traces().values())


def test_a_caller_s_trace_goes_on_hop_by_hop(photo: bytes) -> None:
    """Each span is the child of the one before: the caller's, the edge's, the gateway's, Triton's. Where a chain is
    broken, another call is made, for the reason above."""

    def chain() -> list[tuple[str, str]]:
        """From what computes back to the caller."""
        spans = {one.id: one for one in [*traces()[CALLER.trace], CALLER]}
        for compute in (one for one in spans.values() if one.name == "compute"):
            found = [compute]
            while found[-1] is not CALLER and (parent := spans.get(found[-1].parent)):
                found.append(parent)
            if found[-1] is CALLER:
                return [(one.service, one.name) for one in found]
        typed_json([photo], x_backend="triton", traceparent=CALLER.traceparent)
        return []

    *triton, gateway, edge, _ = wait_until(chain, "every hop", seconds=240, every=8)
    assert {service for service, _ in triton} == {"triton"}
    assert gateway == ("typed-grpc", "fiveway.vision.v1.VisionService/Predict")
    assert edge == ("edge", "typed-http")
