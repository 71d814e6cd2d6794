"""The studies: each is data in a file of its own. WAYS has every way to ask: the stack's routes, the studies' rows."""

import os
import sys
from collections.abc import Mapping

from bench.studies.base import BASE
from bench.studies.encodings import ENCODINGS
from bench.studies.format import FORMAT
from bench.studies.frames import FRAMES
from bench.studies.lists import DISTANCE
from bench.studies.study import Study
from bench.studies.torchserve import TORCHSERVE
from locustfiles.routes import ROUTES, Route

_ALL: tuple[Study, ...] = (TORCHSERVE, BASE, ENCODINGS, DISTANCE, FRAMES, FORMAT)

STUDIES: Mapping[str, Study] = {study.name: study for study in _ALL}

WAYS: Mapping[str, Route] = dict(ROUTES) | {
    name: route for study in STUDIES.values() for name, route in study.routes.items()
}


def offered() -> Mapping[str, Route]:
    """What the Locust page offers: the stack's routes, or with STUDY=<name> in the environment a study's rows."""
    name = os.environ.get("STUDY", "")
    if name and name not in STUDIES:
        sys.exit(f"fiveway: STUDY={name}: choose from {', '.join(STUDIES)}, or leave it empty for the stack's routes")
    return STUDIES[name].routes if name else ROUTES


def first_size() -> str:
    """The size that the page begins with; empty where a photo is the question."""
    name = os.environ.get("STUDY", "")
    return STUDIES[name].cells(True)[0].size if name in STUDIES else ""
