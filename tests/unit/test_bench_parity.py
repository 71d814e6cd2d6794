"""Do routes that agree pass, and is every kind of disagreement seen?

In a process of its own, because the load's clients patch it: `python test_bench_parity.py CASES` says what parity
says of each one's routes. With answers, the routes are played in that process; without, the host is asked.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

from locustfiles.payloads import photos
from locustfiles.routes import ROUTES
from tests.unit.locust_processes import paths, run
from tests.unit.locust_servers import standing_in
from tests.unit.tiny_artifacts import declare, tiny

NAMES = photos("224x224")
WIDTH = 16
BATCH = 6

Verdicts = dict[str, dict[str, Any]]


def vectors(answer: str, numbers: Sequence[int]) -> "np.ndarray[Any, Any]":
    """What a route says of photos, [N, WIDTH], in the way that the test asks for."""
    right = np.stack([np.random.default_rng(photo).normal(size=WIDTH) for photo in numbers]).astype(np.float32)
    noise = np.random.default_rng(99).normal(size=right.shape).astype(np.float32)
    return {
        "noise": right + np.float32(0.1) * noise,
        "coarse": right + np.float32(0.01) * noise,
        "bent": right + np.float32(0.1) * np.roll(right, 1, axis=1),
        "rounded": right.astype(np.float16).astype(np.float32) * 3,
        "reversed": right[::-1],
        "narrow": right[:, :5],
        "short": right[: len(right) // 2],
        "zeros": right * 0,
        "nan": right * np.nan,
        "garbage": np.array(["x"]),
    }.get(answer, right)


def play(parity: Any, answers: dict[str, str]) -> None:
    """Have the routes say this to their users' own requests."""
    from locustfiles.calls import requests_of
    from locustfiles.clients import CallError

    def said(route: Any, chosen: Any, most: int) -> Iterator[tuple[int, Any]]:
        for i, payload in enumerate(requests_of(route, chosen)[:most]):
            if answers[route.name] == "down":
                raise CallError("UNAVAILABLE: nobody\n is there")
            asked = [n % len(NAMES) for n in range(i, i + payload.images)]
            yield payload.images, vectors(answers[route.name], asked)

    def decode(_: object, answer: Any, images: int, real: Any = parity._decode) -> Any:
        return real(lambda found: found, answer, images)

    mock.patch.multiple(parity, _said=said, _decode=decode).start()


def main() -> None:
    import locust  # noqa: F401  patches the standard library: first

    from bench.measure import parity
    from bench.measure.measured import Cell
    from locustfiles.routes import ROUTES

    found = {}
    for name, case in json.loads(sys.argv[1]).items():
        os.environ["ARTIFACTS"] = case["artifacts"]
        cells = [
            Cell(route, route, batch=batch)
            for route in case["answers"] or ROUTES
            for batch in (1, BATCH)
            if batch <= ROUTES[route].format.max_batch
        ]
        if case["answers"]:
            play(parity, case["answers"])
        found[name] = parity.check(cells, case["host"], case.get("precisions", {}))
        mock.patch.stopall()
    print(json.dumps(found))


JPEG, TENSOR = "jpeg-http", "onnx-http"
PLAYED = {
    **{answer: {TENSOR: answer, JPEG: "right"} for answer in ("right", "rounded", "noise", "reversed")},
    **{answer: {JPEG: "right", TENSOR: answer} for answer in ("down", "garbage", "short", "narrow", "zeros", "nan")},
    "reference down": {JPEG: "down", TENSOR: "right", "typed-http": "right"},
    "one is left": {JPEG: "down", TENSOR: "right"},
    "never built": {JPEG: "right", TENSOR: "right"},
    # Of one precision, of two, and of two where the routes of an engine do not agree.
    **{name: {JPEG: "right", TENSOR: answer} for name, answer in (("fp32", "coarse"), ("tf32", "coarse"))},
    "fp16": {JPEG: "right", TENSOR: "bent", "onnx-grpc": "bent"},
    "fp16 apart": {JPEG: "right", TENSOR: "bent", "onnx-grpc": "reversed"},
    "fp16 both": {JPEG: "right", TENSOR: "bent"},
    "fp16 nan": {JPEG: "right", TENSOR: "nan"},
    "decoded": {JPEG: "right", "onnx-jpeg-http": "coarse"},
}
PRECISIONS = {
    **{name: {"jpeg-http": "FP32", "onnx": "FP16"} for name in ("fp16", "fp16 apart", "fp16 nan")},
    **{name: {"jpeg-http": "FP32", "onnx": "FP32"} for name in ("fp32", "decoded")},
    "tf32": {"jpeg-http": "FP32", "onnx": "FP32 with TF32"},
    "fp16 both": {"jpeg-http": "FP16", "onnx": "FP16"},
}
# Of a case: the route, whether it agrees, whether there is a cosine, and a word of why.
VERDICTS = [
    *[(answer, TENSOR, True, True, "to jpeg-http") for answer in ("right", "rounded")],
    *[(answer, TENSOR, False, True, "to jpeg-http") for answer in ("noise", "reversed")],
    *[(answer, JPEG, True, True, "to jpeg-http") for answer in ("right", "reversed", "down", "garbage", "nan")],
    ("noise", TENSOR, False, True, "below 0.999"),
    ("down", TENSOR, False, False, "UNAVAILABLE: nobody is there"),
    ("garbage", TENSOR, False, False, ""),
    ("short", TENSOR, False, False, "for 1 images"),
    ("narrow", TENSOR, False, False, "another model"),
    *[(answer, TENSOR, False, False, "zeros or NaN") for answer in ("zeros", "nan")],
    ("reference down", TENSOR, True, True, "to typed-http"),
    ("reference down", JPEG, False, False, "UNAVAILABLE"),
    ("one is left", TENSOR, True, True, "to onnx-http"),
    ("never built", TENSOR, False, False, "docker compose up models"),
    ("never built", JPEG, True, True, ""),
    ("fp32", TENSOR, False, True, "below 0.99999"),
    ("tf32", TENSOR, True, True, ""),
    ("decoded", "onnx-jpeg-http", True, True, ""),
    *[(f"fp16{more}", TENSOR, False, True, "below 0.999:") for more in ("", " apart", " both")],
    ("fp16 nan", TENSOR, False, False, "zeros or NaN"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdicts]:
    """What parity says of every case: those of PLAYED, and the stand-in servers by mode and protocol."""
    built = tiny(tmp_path_factory.mktemp("artifacts"), side=2, size="224x224")
    nothing = tmp_path_factory.mktemp("nothing")
    declare(nothing, "unknown")
    cases = {
        name: {
            "artifacts": str(built),
            "host": "http://played:1",
            "answers": answers,
            "precisions": PRECISIONS.get(name, {}),
        }
        for name, answers in PLAYED.items()
    }
    cases["never built"]["artifacts"] = str(nothing)
    with standing_in(0) as good, standing_in(0, "errors") as errors:
        for mode, server in {"good": good, "errors": errors}.items():
            for protocol, port in {"http": server.http_port, "grpc": server.grpc_port}.items():
                asked = {"artifacts": str(built), "host": f"http://127.0.0.1:{port}", "answers": {}}
                cases[f"{mode} {protocol}"] = asked
        status, out, err = run(__file__, json.dumps(cases), env=paths(built))
    assert status == 0, err
    verdicts: dict[str, Verdicts] = json.loads(out)
    return verdicts


@pytest.mark.parametrize(("case", "route", "agrees", "compared", "words"), VERDICTS)
def test_answers_are_held_against_the_first_jpeg_route_that_answers(
    found: dict[str, Verdicts], case: str, route: str, agrees: bool, compared: bool, words: str
) -> None:
    """Rounding and length do not matter; another direction does, and so does another order in a batch. What is no
    answer has no cosine, and costs its own route only."""
    verdict = found[case][route]
    assert (verdict["agrees"], verdict["cosine"] is not None) == (agrees, compared)
    assert not compared or (verdict["cosine"] >= (0.99999 if case == "fp32" else 0.999)) is agrees
    assert words in verdict["why"]
    assert "\n" not in verdict["why"]


def test_a_disagreement_that_precision_explains_names_it(found: dict[str, Verdicts]) -> None:
    """If the engines' precisions differ, and the routes of that engine agree with each other."""
    named = {(case, route) for case, routes in found.items() for route, one in routes.items() if one["factor"]}
    assert named == {("fp16", TENSOR), ("fp16", "onnx-grpc"), ("fp16 apart", TENSOR)}
    assert found["fp16"][TENSOR]["factor"] == "precision FP16 against FP32"


@pytest.mark.parametrize("name", ROUTES)
def test_every_format_over_its_own_client(found: dict[str, Verdicts], name: str) -> None:
    """The answers of all HTTP routes, then of all gRPC routes, are read; those of the other protocol are failures."""
    protocol = "grpc" if name.endswith("-grpc") else "http"
    right = found[f"good {protocol}"][name]
    assert (right["agrees"], right["cosine"]) == (True, pytest.approx(1))
    for case in ("good grpc" if protocol == "http" else "good http", "errors http", "errors grpc"):
        wrong = found[case][name]
        assert (wrong["agrees"], wrong["cosine"]) == (False, None)
        assert wrong["why"].splitlines() == [wrong["why"]]


if __name__ == "__main__":
    main()
