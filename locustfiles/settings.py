"""The options of a run besides Locust's own, declared once for the command line, the page and the workers."""

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from locustfiles import serving, toxiproxy
from locustfiles.clients import CallError
from locustfiles.clients.policy import POLICIES, POOLED
from locustfiles.payloads import ALL, photo_sizes
from locustfiles.routes import MAX_BATCH, ROUTES, Route
from locustfiles.serving import Serving
from locustfiles.study_routes import WAYS, first_size

EDGE, DIRECT = "edge", "direct"
PHOTOS = (*photo_sizes(), ALL)
CHOICES = ("batch", "photo", "target", "policy", "size", "distance")
"""The options of a run: fields of Settings, options of a command line, fields of the page's form."""


class BadSetting(ValueError):
    """An invalid choice; the text says what to choose instead."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices of one run, checked."""

    host: str
    """host:port of the edge; with https:// before it where it speaks TLS."""
    batch: int = 1
    photo: str = PHOTOS[0]
    target: str = EDGE
    policy: str = POOLED
    serving: Serving = field(default_factory=serving.now)
    size: str = ""
    distance: str = ""

    def address(self, route: Route) -> str:
        """Where the clients of `route` connect to, as Endpoint has it."""
        if self.distance:
            return toxiproxy.ADDRESS
        if self.target == EDGE:
            return self.host
        return direct_address(route.direct) if self.target == DIRECT and route.direct else edge_address(self.target)

    def served(self, route: Route) -> str:
        """The name of `route`'s model at its server; raises BadSetting if there is no such model."""
        if why := unfit(route, self.serving):
            raise BadSetting(f"{route.name}: {why}")
        return "" if route.modelless else self.serving.model + route.suffix


def unfit(route: Route, now: Serving) -> str:
    """Why a route cannot ask the served model; empty if it can."""
    if route.modelless:
        return ""
    if not now.images and not route.format.tensors:
        return f"it takes photos, and {now.model} takes tensors"
    if (wanted := now.model + route.suffix) not in now.models:
        return f"there is no {wanted}"
    return ""


def serving_at(host: str | None) -> Serving:
    """What the stack whose edge is `host`, like http://edge:8080, serves; raises BadSetting."""
    try:
        return serving.now(edge_address(host or ""))
    except serving.NothingServed as nothing:
        raise BadSetting(str(nothing)) from None


def fit(names: Iterable[str], now: Serving) -> list[str]:
    """Those of the routes that can ask the served model."""
    return [name for name in names if not unfit(WAYS[name], now)]


def command_line(description: str) -> ArgumentParser:
    """Add the options of a command that asks routes: the routes, the edge, and the settings of a run. `chosen` reads
    them."""
    parser = ArgumentParser(description=description)
    all_of_them = "default: all that make sense for the served model"
    parser.add_argument("routes", nargs="*", metavar="ROUTE", help=all_of_them)
    parser.add_argument("--host", default="http://edge:8080", help="the edge (default: %(default)s)")
    add_arguments(parser)
    return parser


def chosen(parser: ArgumentParser, every: Iterable[str]) -> tuple[Namespace, list[str], Settings]:
    """The options, the routes, and the run. The routes are those named, else those of `every` that can ask the served
    model. Invalid choices end the process."""
    options = parser.parse_args()
    try:
        names = options.routes or fit(every, serving_at(options.host))
        found = parse(vars(options), names)
        put_away(found)
    except BadSetting as bad:
        parser.error(str(bad))
    return options, names, found


def put_away(chosen: Settings) -> None:
    """Put the edge as far away as was chosen, before anybody connects; raises BadSetting."""
    if chosen.distance:
        try:
            toxiproxy.apply(chosen.distance)
        except CallError as error:
            raise BadSetting(str(error)) from None


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the choices. Locust shows them as form fields and sends them to the workers."""
    # Not in a group of their own: Locust's page shows only what is added to the parser itself.
    batch = f"Images per request, 1 to {MAX_BATCH}. TorchServe's own routes take 1."
    parser.add_argument("--batch", type=int, default=1, help=batch)
    photo = "Size of the photos that each user sends in turn. Tensors are made of the same photos, all 224x224."
    parser.add_argument("--photo", choices=PHOTOS, default=PHOTOS[0], help=photo)
    target = """edge: through Envoy at the host above. direct: straight to each server inside the network.
        http://host:port or https://host:port: through an Envoy elsewhere."""
    parser.add_argument("--target", default=EDGE, help=target)
    policy = "; ".join(f"{name}: {meaning}" for name, meaning in POLICIES.items())
    parser.add_argument("--policy", choices=list(POLICIES), default=POOLED, help=f"{policy}.")
    size = "Size of a study's requests without photos: vectors or values. Not for the stack's routes."
    parser.add_argument("--size", default=first_size(), help=size)
    distance = """Round trip and bandwidth, like 150ms-100mbit, that the proxy of profile `transport` puts in front of
        the edge. Empty: nothing between."""
    parser.add_argument("--distance", default="", help=distance)


def parse(values: Mapping[str, Any], routes: Iterable[str]) -> Settings:
    """Check the choices of a command line or of the page's form for these routes; raises BadSetting."""
    if unknown := [name for name in routes if name not in WAYS]:
        raise BadSetting(f"unknown user class {', '.join(unknown)}: choose from {', '.join(WAYS)}")
    picked = [WAYS[name] for name in routes]
    photo, target, policy = (values[name] for name in ("photo", "target", "policy"))
    size, far = (values.get(name) or "" for name in ("size", "distance"))
    if not str(values["batch"]).isdecimal() or not 1 <= (batch := int(values["batch"])) <= MAX_BATCH:
        raise BadSetting(f"batch {values['batch']}: choose 1 to {MAX_BATCH} images per request")
    if narrow := [route.name for route in picked if batch > route.format.max_batch]:
        raise BadSetting(f"only 1 image per request on {', '.join(narrow)}: choose batch 1, or other routes")
    if photo not in PHOTOS:
        raise BadSetting(f"no photos of size {photo}: choose from {', '.join(PHOTOS)}")
    if policy not in POLICIES:
        raise BadSetting(f"unknown policy {policy}: choose {', '.join(POLICIES)}")
    if target not in (EDGE, DIRECT):
        edge_address(target, f"target {target!r}: choose {EDGE}, {DIRECT}, or write an edge")
    if target == DIRECT and (edge_only := [route.name for route in picked if not route.direct]):
        raise BadSetting(f"only at the edge: {', '.join(edge_only)}. Choose target {EDGE}, or other routes")
    if target != DIRECT and (hidden := [route.name for route in picked if not route.behind_edge]):
        raise BadSetting(f"not behind the edge: {', '.join(hidden)}. Choose target {DIRECT}, or other routes")
    host = edge_address(values.get("host") or "")
    if far:
        if target != EDGE:
            raise BadSetting(f"a distance is to this stack's edge: choose target {EDGE}")
        try:
            toxiproxy.parse(far)
        except ValueError as wrong:
            raise BadSetting(str(wrong)) from None
    now = serving_at(values.get("host"))
    if senseless := {route.name: why for route in picked if (why := unfit(route, now))}:
        reasons = "; ".join(f"{name}: {why}" for name, why in senseless.items())
        raise BadSetting(f"{reasons}. Choose from {', '.join(fit(ROUTES, now))}")
    return Settings(host, batch, photo, target, policy, now, size, far)


def direct_address(name: str) -> str:
    """host:port of a server that has the host:port `name` in the network of Compose; raises BadSetting.

    Elsewhere without Docker (scripts/native), and for an endpoint of somebody else: DIRECT_ADDRESSES says where, as
    "triton:8000=127.0.0.1:18000 ...", with https:// before an address that speaks TLS.
    """
    pairs = os.environ.get("DIRECT_ADDRESSES", "").split()
    if wrong := [pair for pair in pairs if not re.fullmatch(r"[^=:]+:\d+=(https://)?([^=:]+|\[[\da-f:]+\]):\d+", pair)]:
        raise BadSetting(f"DIRECT_ADDRESSES holds {wrong[0]!r}: write pairs like triton:8000=127.0.0.1:18000")
    return dict(pair.split("=") for pair in pairs).get(name, name)


def native() -> bool:
    """Whether the servers are beside the load, on the loopback of this machine."""
    return bool(re.search(r"=(https://)?(127\.|localhost:)", os.environ.get("DIRECT_ADDRESSES", "")))


def edge_address(host: str, wrong: str = "") -> str:
    """http://name:port -> name:port, https://name:port as it is; raises BadSetting, which begins with `wrong`."""
    found = re.fullmatch(r"(https?)://([^\s/:?#@\[\]]+|\[[\da-fA-F:]+\])(?::([1-9]\d{0,4}))?/*", host)
    if not found:
        raise BadSetting(f"{wrong or f'host {host!r}: write it'} like http://edge:8080")
    scheme, name, port = found.groups()
    return f"{name}:{port or 80}" if scheme == "http" else f"https://{name}:{port or 443}"
