"""Bad input: the right status and a message that says what to do, on every route; and nothing is hurt by it."""

import json

import pytest

from tests.clients import CLIENTS
from tests.docker import memory_mib
from tests.stack.bad_input import CASES, Refusal

# Rounds of every case in which memory must not grow, after one that fills caches and pools.
ROUNDS = 5
# What allocators may keep between two looks; one leaked 64 MiB body per round is far above it.
GROWTH_MIB = 96

everything = [
    pytest.param(refusal, id=f"{case.name}-{refusal.route}-{number}")
    for case in CASES
    for number, refusal in enumerate(case.refusals)
]


@pytest.mark.parametrize("refusal", everything)
def test_bad_input_is_refused_and_the_next_good_request_works(refusal: Refusal, photo: bytes) -> None:
    """Exactly the status of the table, its words in the message, and the same route answers a photo right after."""
    status, message = refusal.build().send()
    assert status == refusal.status, message
    assert refusal.says in (message if not status.isdigit() else text_of(message))
    client = next(client for name, client in CLIENTS.items() if name.partition("/")[0] == refusal.route)
    assert len(client([photo])) == 1


def text_of(body: str) -> str:
    """The message in an HTTP error body: `error.message` of ours, `error` of Triton, `message` of TorchServe."""
    found = json.loads(body)
    error = found.get("error", found)
    return str(error) if isinstance(error, str) else str(error["message"])


@pytest.mark.timeout(300)
def test_memory_does_not_grow() -> None:
    """After rounds of every bad request, each server holds what it held after the first."""
    refuse_all()
    before = memory_mib()
    for _ in range(ROUNDS):
        refuse_all()
    after = memory_mib()
    grown = {name: round(after[name] - before[name], 1) for name in before}
    assert max(grown.values()) < GROWTH_MIB, grown


def refuse_all() -> None:
    for case in CASES:
        for refusal in case.refusals:
            refusal.build().send()
