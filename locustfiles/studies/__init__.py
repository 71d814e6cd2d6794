"""The studies: each is data in a file of its own. WAYS has every way to ask: the stack's routes, the studies' rows."""

from collections.abc import Mapping

from locustfiles.routes import ROUTES, Route
from locustfiles.studies.encodings import ENCODINGS
from locustfiles.studies.format import FORMAT
from locustfiles.studies.lists import DISTANCE
from locustfiles.studies.study import Study

_ALL: tuple[Study, ...] = (ENCODINGS, FORMAT, DISTANCE)

STUDIES: Mapping[str, Study] = {study.name: study for study in _ALL}

WAYS: Mapping[str, Route] = dict(ROUTES) | {
    name: route for study in STUDIES.values() for name, route in study.routes.items()
}
