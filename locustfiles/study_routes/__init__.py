"""The rows of each study, a file per study. A row is a route of the stack, or another way to ask one.

WAYS has every way to ask: the stack's routes, each by every client, and the studies' rows.
"""

import os
import sys
from collections.abc import Mapping

from locustfiles.routes import ROUTES, Route, by_name
from locustfiles.study_routes import (
    base,
    clients,
    distance,
    encodings,
    endpoint,
    fiveway,
    frames,
    peers,
    scaling,
    shm,
    torchserve,
)
from locustfiles.study_routes.format import ROWS as FORMAT_ROWS

STUDY_ROUTES: Mapping[str, Mapping[str, Route]] = {
    "fiveway": fiveway.ROWS,
    "torchserve": torchserve.ROWS,
    "base": base.ROWS,
    "encodings": encodings.ROWS,
    "distance": distance.ROWS,
    "frames": frames.ROWS,
    "format": FORMAT_ROWS,
    "clients": clients.ROWS,
    "peers": peers.ROWS,
    "shm": shm.ROWS,
    "scaling": scaling.ROWS,
    "endpoint": endpoint.ROWS,
}
"""Study -> name of a row -> the way to ask."""
_SIZES = {"encodings": encodings.MANY, "distance": distance.LIST, "frames": frames.HD}

WAYS = by_name(
    *ROUTES.values(),
    *(row for rows in STUDY_ROUTES.values() for row in rows.values()),
    *(row for rows in clients.ASKED_BY.values() for row in rows.values()),
)


def offered() -> Mapping[str, Route]:
    """The user classes of the Locust page: the stack's routes, or with STUDY=<name> in the environment a study's rows,
    without those that another program asks."""
    name = os.environ.get("STUDY", "")
    if name and name not in STUDY_ROUTES:
        sys.exit(f"fiveway: STUDY={name}: choose from {', '.join(STUDY_ROUTES)}, or leave it empty for the routes")
    rows = STUDY_ROUTES[name] if name else ROUTES
    return {name: row for name, row in rows.items() if not row.format.generator}


def first_size() -> str:
    """The page's default size; empty if requests are photos."""
    return _SIZES.get(os.environ.get("STUDY", ""), "")
