"""Bad input: the right status and a message that says what to do, on every route; and nothing is hurt by it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from chaos.docker import memory_mib
from tests.clients import client_of
from tests.stack.bad_input import CASES, CASES_BY_NAME, MIB, Refusal

# Rounds of every case. Caches, pools and Java's heap fill in the first ones, and how many that takes differs from run
# to run: so rounds go on until the last of them no longer add more than allocators take from one look to the next. One
# 64 MiB body leaked per round would add 192 MiB for ever.
ROUNDS, MOST_ROUNDS, GROWTH_MIB = 5, 16, 128
# Triton reuses the objects of 16 gRPC calls (servers/triton/serve), each with room for the largest message that it has
# taken. The rest is what malloc leaves between them. Leaked, 40 messages would be 2,560.
LARGE_MESSAGES, POOL_MIB = 40, 16 * 64 + 512

everything = [
    pytest.param(refusal, id=f"{case.name}-{refusal.route}-{number}")
    for case in CASES
    for number, refusal in enumerate(case.refusals)
]


@pytest.mark.parametrize("refusal", everything)
def test_bad_input_is_refused_and_the_next_good_request_works(refusal: Refusal, photo: bytes) -> None:
    """Exactly the status of the table, its words in the message, and the same route answers a photo right after."""
    refusal.holds(refusal.build())
    assert len(client_of(refusal.route)([photo])) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_memory_does_not_grow() -> None:
    """Every bad request again and again: what each server holds reaches a level and stays there.

    A look may come in the middle of something: of each service the most that it held before the last five rounds
    counts, and the least that it held in the last three.
    """
    looks: list[dict[str, float]] = []
    grown: dict[str, float] = {}
    while not grown or max(grown.values()) >= GROWTH_MIB:
        assert len(looks) < MOST_ROUNDS, f"still growing after {MOST_ROUNDS} rounds: {grown}"
        refuse_all()
        looks.append(memory_mib())
        if before := looks[:-ROUNDS]:
            grown = {name: min(now[name] for now in looks[-3:]) - max(old[name] for old in before) for name in looks[0]}


@pytest.mark.slow
def test_triton_keeps_a_pool_and_no_more() -> None:
    """Large messages over gRPC fill the pool of objects that Triton reuses, and then nothing grows."""
    large = [refusal.build() for refusal in CASES_BY_NAME["64 MiB body"].refusals if refusal.route == "onnx-grpc"]
    before = memory_mib()["triton"]
    for _ in range(LARGE_MESSAGES):
        for request in large:
            request.send()
    assert memory_mib()["triton"] - before < POOL_MIB


def refuse_all() -> None:
    """Every bad request once, three at a time, without the large messages that fill Triton's pool."""

    def send(refusal: Refusal) -> None:
        request = refusal.build()
        if refusal.route not in ("onnx-grpc", "trt-grpc", "onnx-jpeg-grpc") or len(request.body) < MIB:
            request.send()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(send, (refusal for case in CASES for refusal in case.refusals)))
