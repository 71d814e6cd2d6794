"""Do the routes of a run give the same embeddings? Checked before any timing: a route that disagrees gets no verdict.

Each route gets its users' own requests through their client, and is held against the reference: the first route of
the run that takes JPEGs, else the first one. (All that take JPEGs decode alike, and the tensors were made by the same
steps: one tolerance fits photos of every size.) Of a model that takes tensors, all outputs of a request are compared.

A route whose engine computes in another precision than the reference's may be too far from it for that alone. If it
then agrees with the first route of its own engine, the precision is named as the factor: such routes can be compared
with each other, and with others they cannot.

If answers are not embeddings, all routes that ask the same (Route.asks) must get the same answer as the first of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.measure import pauses
from bench.measure.cells import settings_of
from bench.measure.measured import Cell
from locustfiles import payloads, tensors
from locustfiles.answers import WrongAnswer
from locustfiles.calls import check_of, lent, requests_of
from locustfiles.clients import Answer, CallError
from locustfiles.routes import Route
from locustfiles.settings import BadSetting, Settings
from locustfiles.study_routes import WAYS
from locustfiles.user import connect

FP32 = "FP32"
MIN_COSINE_FP32 = 0.99999
"""As the model builder's. Measured in FP32, over every engine on a CPU: 0.999999999998 at worst."""
MIN_COSINE = 0.999
"""In TF32 and FP16, whose roundings are off by up to 2^-11: about a hundred of them in one direction, like one in each
layer (models/builder/parity.py). Also of photos that Triton decodes: DALI's pixels make it 0.9993 (decision 12)."""
MIN_COSINE_OWN = 0.99
"""Within an engine that is further off: another batch may run in other kernels. Another photo is far below (0.25 at
most with efficientnet_lite0)."""

Vectors = NDArray[np.float32]
"""[images, D]"""
Answers = list[tuple[str, Vectors]]
"""The answers of one route: (the photo's name, its embedding [D]), a pair for each time the photo was sent."""

_Verdict = dict[str, Any]


def check(cells: Iterable[Cell], host: str, precisions: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Route -> {"agrees": bool, "cosine": the worst one to the reference or None, "why": one line, "factor": what
    explains a disagreement or ""}.

    `host` is the edge (http://host:port) of cells with target `edge`; `precisions` are those of the engines
    (Route.engine) that are known. At each target and photo size of its cells a route is asked for every photo alone,
    and for all in one request of the largest batch.
    """
    pauses.let_run(pauses.ALL)
    cells = list(cells)
    verdicts = _equal([cell for cell in cells if WAYS[cell.route].asks], host)
    largest: dict[tuple[str, str, str], int] = {}
    for cell in cells:
        if not WAYS[cell.route].asks:
            way = (cell.route, cell.target, cell.photo)
            largest[way] = max(cell.batch, largest.get(way, 1))
    answers: dict[str, Answers] = {}
    failed: dict[str, str] = {}
    for (route, target, photo), batch in largest.items():
        try:
            answers.setdefault(route, []).extend(_ask(route, host, target, photo, batch))
        except OSError as error:
            failed.setdefault(route, f"{error}: the model builder makes the inputs (docker compose up models)")
        except (CallError, WrongAnswer, BadSetting) as error:
            failed.setdefault(route, f"{error} ({target})")
    reference = _reference([route for route in answers if route not in failed])
    for route in dict.fromkeys(route for route, _, _ in largest):
        if route in failed:
            verdicts[route] = _verdict(failed[route])
            continue
        least = _least(route, reference, precisions)
        found = verdicts[route] = _compare(answers[route], answers[reference], reference, least)
        mine, other = (precisions.get(WAYS[one].engine) for one in (route, reference))
        if not found["agrees"] and found["cosine"] is not None and mine and other and mine != other:
            own = next(one for one in answers if one not in failed and WAYS[one].engine == WAYS[route].engine)
            if _compare(answers[route], answers[own], own, MIN_COSINE_OWN)["agrees"]:
                found["factor"] = f"precision {mine} against {other}"
    return verdicts


def _least(route: str, reference: str, precisions: Mapping[str, str]) -> float:
    """The cosine that their answers must have at least."""
    ways = WAYS[route], WAYS[reference]
    exact = all(precisions.get(way.engine) == FP32 and way.suffix != "_jpeg" for way in ways)
    return MIN_COSINE_FP32 if exact else MIN_COSINE


def _verdict(why: str, cosine: float | None = None, least: float = MIN_COSINE) -> _Verdict:
    agrees = cosine is not None and cosine >= least
    return {"agrees": agrees, "cosine": cosine, "why": " ".join(why.split()), "factor": ""}


def _equal(cells: Sequence[Cell], host: str) -> dict[str, _Verdict]:
    """As `check`, for rows whose answers must be equal. Each is sent the first request of each of its cells."""
    wanted: dict[tuple[str, str, str], tuple[Route, Any]] = {}
    verdicts: dict[str, _Verdict] = {}
    for cell in dict.fromkeys(replace(cell, distance="", batch=1, users=1, gather=False) for cell in cells):
        route = WAYS[cell.route]
        try:
            ((_, answer),) = _said(route, settings_of(cell, host), 1)
            found = route.format.read(answer)
        except (CallError, WrongAnswer, BadSetting, OSError) as error:
            verdicts[cell.route] = _verdict(f"{error}")
            continue
        asked = (route.asks, cell.photo, cell.size)
        first, expected = wanted.setdefault(asked, (route, found))
        near = max(route.format.tolerance, first.format.tolerance)
        if not _same(found, expected, near):
            verdicts[cell.route] = _verdict(f"its answer is not {first.name}'s ({' '.join(filter(None, asked))})", 0.0)
        how = f"on average within {near:g} of" if near else "equal to"
        verdicts.setdefault(cell.route, _verdict(f"{how} {first.name}'s", 1.0))
    return verdicts


def _same(a: Any, b: Any, near: float) -> bool:
    """`near`: how far arrays may be from each other, in the mean of the absolute differences."""
    if near:
        return a.shape == b.shape and float(np.abs(a.astype(np.float32) - b).mean()) <= near
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6)
    return bool(a == b)


def _said(route: Route, chosen: Settings, most: int) -> Iterator[tuple[int, Answer]]:
    """The answers to the first requests of a user of this route, checked, each with its number of images.

    Raises CallError, WrongAnswer, BadSetting, or OSError where an input is missing.
    """
    ready, check = requests_of(route, chosen)[:most], check_of(route, chosen)
    with lent(route, chosen, ready[0], 1), closing(connect(route, chosen)) as client:
        for payload in ready:
            answer = client.send(payload)
            check(answer, payload.images)
            yield payload.images, answer


def _ask(name: str, host: str, target: str, photo: str, batch: int) -> Answers:
    """A route's answers to every photo alone, and to all in one request; raises as _said does."""
    route = WAYS[name]
    names = payloads.photos(photo)
    found: Answers = []
    for size in dict.fromkeys((1, batch)):
        chosen = settings_of(Cell(name, name, size, photo=photo, target=target), host)
        # The n-th request of one image is the n-th photo; the first request of a batch begins with the first photo.
        for index, (images, answer) in enumerate(_said(route, chosen, len(names) if size == 1 else 1)):
            if chosen.serving.images:
                vectors = _decode(route.format.read, answer, images)
                found += [(names[(index + i) % len(names)], vector) for i, vector in enumerate(vectors)]
            else:
                found.append((f"request {index} of batch {size}", tensors.flat(route.format.protocol, answer)))
    return found


def _reference(routes: Sequence[str]) -> str:
    """The reference: one of the routes that answered, or "" if none did."""
    tensors = (payloads.kserve_http, payloads.kserve_grpc)
    return next((route for route in routes if WAYS[route].format.encode not in tensors), next(iter(routes), ""))


def _compare(answers: Answers, reference: Answers, name: str, least: float) -> _Verdict:
    """Every answer against the reference's first one to the same photo."""
    wanted = dict(reversed(reference))
    worst, where = 1.0, ""
    for photo, vector in answers:
        if photo not in wanted:
            return _verdict(f"{name}, the reference, was not asked for {photo}")
        if vector.shape != wanted[photo].shape:
            lengths = f"{vector.size} numbers, {name}'s of {wanted[photo].size}"
            return _verdict(f"its embeddings are of {lengths}: another model")
        found = cosine(vector, wanted[photo])
        if not np.isfinite(found):
            return _verdict(f"no direction in the embedding of {photo}: zeros or NaN")
        if found <= worst:
            worst, where = found, photo
    below = "" if worst >= least else f", below {least:g}: another answer"
    return _verdict(f"cosine to {name} is {worst:.6f} at worst ({where}){below}", worst, least)


def cosine(a: Vectors, b: Vectors) -> float:
    """Of two embeddings [D]; NaN where one is all zeros or not finite."""
    one, other = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def _decode(decoder: Callable[[Answer], Any], answer: Answer, images: int) -> Vectors:
    try:
        vectors = np.asarray(decoder(answer), np.float32)
    except (ValueError, LookupError, TypeError) as error:
        raise WrongAnswer(f"not an answer with embeddings: {type(error).__name__}: {error}") from error
    if vectors.ndim != 2 or len(vectors) != images:
        raise WrongAnswer(f"embeddings of shape {list(vectors.shape)} for {images} images")
    return vectors
