"""One request per route, one after the other: `python -m locustfiles.smoke [--host URL] [--wait S] [ROUTE ...]`.

Prints `jpeg-http ok 23 ms` or the error, per route; exit status 1 when a route did not answer. It sends what the users
of a load test send, with their clients, and checks the answers as they do. Unless routes are named, those that cannot
ask the served model are listed with the reason instead.
"""

import sys
import time
from collections.abc import Iterator

import locust  # noqa: F401  patches the standard library: first

from locustfiles import settings
from locustfiles.answers import WrongAnswer
from locustfiles.calls import check_of, requests_of
from locustfiles.clients import CallError
from locustfiles.routes import ROUTES, Route
from locustfiles.user import connect

RETRY_EVERY_S = 1.0


def ask(route: Route, chosen: settings.Settings) -> float:
    """Send one request, check the answer, return its time in ms. Raises CallError, WrongAnswer, OSError."""
    payload = requests_of(route, chosen)[0]
    client = connect(route, chosen)
    try:
        start = time.perf_counter()
        answer = client.send(payload)
        elapsed_ms = (time.perf_counter() - start) * 1000
    finally:
        client.close()
    check_of(route, chosen)(answer, payload.images)
    return elapsed_ms


def failures(names: list[str], chosen: settings.Settings) -> Iterator[tuple[str, str]]:
    """Ask every route; print the ones that answer, yield the others with their errors."""
    for name in names:
        try:
            print(f"{name} ok {ask(ROUTES[name], chosen):.0f} ms", flush=True)
        except (CallError, WrongAnswer, OSError, settings.BadSetting) as error:
            yield name, str(error)


def main() -> int:
    parser = settings.command_line("One request per route.")
    parser.add_argument("--wait", type=float, default=0, metavar="S", help="keep trying for so long (default: one try)")
    options, names, chosen = settings.chosen(parser, ROUTES)
    for name in () if options.routes else [name for name in ROUTES if name not in names]:
        now = chosen.serving
        print(f"{name} not for {now.model}: {settings.unfit(ROUTES[name], now)}", flush=True)

    until = time.monotonic() + options.wait
    said: dict[str, str] = {}
    while failed := dict(failures(names, chosen)):
        last = time.monotonic() >= until
        for name, error in failed.items():
            if last or said.get(name) != error:
                print(f"{name} {'failed' if last else 'waiting'}: {error}", file=sys.stderr)
        if last:
            return 1
        said |= failed
        names = list(failed)
        time.sleep(RETRY_EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
