"""The commands of scripts/chaos, which has them in its header."""

from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402  the standard library is patched first
import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Iterable, Mapping  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from chaos import docker, faults, figures, fuzz, overload, page, rude, soak  # noqa: E402
from chaos.load import served, targets  # noqa: E402
from locustfiles.settings import BadSetting  # noqa: E402

ROWS: Mapping[str, Callable[..., Iterable[dict[str, Any]]]] = {
    one.__name__.removeprefix("chaos."): one.rows for one in (faults, overload, rude, fuzz, soak)
}
"""By command, what makes its rows, of the routes and the command's options."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/chaos", description="What the running stack does when things go wrong."
    )
    parser.add_argument("--results", default=Path("/results"), type=Path, help="the folder of results")
    kinds = parser.add_subparsers(dest="kind", required=True)

    def kind(name: str, text: str, *, only: bool = True) -> argparse.ArgumentParser:
        one = kinds.add_parser(name, help=text, description=text)
        if only:
            one.add_argument("--only", default="", metavar="TEXT", help="only those whose name holds this text")
        return one

    one = kind("faults", "each fault under load on all routes")
    one.add_argument("--times", type=int, default=3, help="how often each")
    one.add_argument("--rate", type=float, default=2.0, help="calls per second of each route (default: %(default)s)")
    one = kind("overload", "each route at 1, 2, 5 and 10 times what it can do", only=False)
    one.add_argument("routes", nargs="*", metavar="ROUTE", help="default: all")
    one.add_argument("--seconds", type=float, default=8.0, help="of each load")
    kind("rude", "slow, rude and hostile clients").add_argument("--seconds", type=float, default=8.0, help="of each")
    one = kind("fuzz", "requests that are nearly right")
    one.add_argument("--cases", type=int, default=100_000, help="in all (default: %(default)s)")
    one.add_argument("--seed", type=int, default=1)
    kind("soak", "70 % of capacity for a long time", only=False).add_argument("--minutes", type=float, default=30.0)
    kind("page", "docs/reliability.md from results", only=False).add_argument(
        "paths", nargs="+", type=Path, metavar="RESULT"
    )
    return parser.parse_args()


def main() -> int:
    options = vars(arguments())
    kind, results = options.pop("kind"), options.pop("results")
    if kind == "page":
        print(page.made(options["paths"]), end="")
        return 0
    rows = []
    try:
        # Its own address: behind a port on 127.0.0.1 is a process of Docker's, which copies every byte.
        routes = targets(f"{docker.address_of('edge')}:8080")
        for row in ROWS[kind](routes, **options):
            rows.append(row)
            print(json.dumps(row, ensure_ascii=False), flush=True)
    except (BadSetting, OSError) as error:
        print(f"fiveway: {error}", file=sys.stderr)
        return 2
    path = figures.keep(figures.made(kind, served(routes), options, rows), results)
    print(f"fiveway: {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
