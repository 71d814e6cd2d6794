"""Bad input: the right status and a message that says what to do, on every route; and nothing is hurt by it."""

import pytest

from tests.clients import CLIENTS, error_text
from tests.docker import memory_mib
from tests.stack.bad_input import CASES, Refusal

# Rounds of every case: some that fill caches and pools, then some in which memory must not grow.
WARM_UP, ROUNDS = 3, 4
# What allocators may keep from one look to the next. Each round sends Triton two bodies of 64 MiB: 512 if leaked.
GROWTH_MIB = 256

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
    assert refusal.says in (message if not status.isdigit() else error_text(message))
    client = next(client for name, client in CLIENTS.items() if name.partition("/")[0] == refusal.route)
    assert len(client([photo])) == 1


@pytest.mark.timeout(300)
def test_memory_does_not_grow() -> None:
    """After more rounds of every bad request, each server holds what it held before them."""
    for _ in range(WARM_UP):
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
