"""The studies: each is data in a file of its own. Their rows are in locustfiles/study_routes."""

from collections.abc import Mapping

from bench.studies.base import BASE
from bench.studies.clients import CLIENTS
from bench.studies.distance import DISTANCE
from bench.studies.encodings import ENCODINGS
from bench.studies.endpoint import ENDPOINT
from bench.studies.fiveway import FIVEWAY
from bench.studies.format import FORMAT
from bench.studies.frames import FRAMES
from bench.studies.peers import PEERS_STUDY
from bench.studies.scaling import SCALING
from bench.studies.shm import SHM_STUDY
from bench.studies.study import Study
from bench.studies.torchserve import TORCHSERVE

STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (
        *(FIVEWAY, TORCHSERVE, BASE, ENCODINGS, DISTANCE, FRAMES, FORMAT, CLIENTS),
        *(PEERS_STUDY, SHM_STUDY, SCALING, ENDPOINT),
    )
}
NO_STUDY = Study("", "", "", lambda quick: [], {}, ())
"""Of A/A: it compares, claims and answers nothing."""


def study_of(name: str) -> Study:
    """That of a run with this name in its place."""
    return STUDIES.get(name, NO_STUDY)
