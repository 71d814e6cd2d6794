"""The requests of a route's users and the checks of the answers: for photos, or from the model's metadata."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from locustfiles import tensors
from locustfiles.answers import Check
from locustfiles.clients import Endpoint, Payload, key
from locustfiles.payloads import Images, payloads
from locustfiles.routes import ROUTES, Route
from locustfiles.settings import BadSetting, Settings


def endpoint_of(route: Route, chosen: Settings, on_connect: Callable[[], None] = lambda: None) -> Endpoint:
    """Where this route's requests go, and the headers that all of them have; raises BadSetting."""
    path = route.path.format(model=chosen.served(route), size=chosen.size)
    headers = {**route.format.headers, **route.headers, **key()}
    return Endpoint(chosen.address(route), path, headers, route.method, on_connect)


def lent(route: Route, chosen: Settings, payload: Payload, users: int) -> AbstractContextManager[None]:
    """What so many clients of this route need around them: see Format.lends."""
    lends = route.format.lends
    return lends(endpoint_of(route, chosen), payload, users) if lends else nullcontext()


def requests_of(route: Route, chosen: Settings) -> tuple[Payload, ...]:
    """Every request that a user of this route sends in turn. Raises OSError, CallError and BadSetting."""
    folder = chosen.serving.tensors
    if chosen.size:
        served, encode = chosen.served(route), route.format.encode
        return tuple(encode(Images((), folder, served, chosen.size, turn)) for turn in range(route.format.turns))
    if chosen.serving.images or route.modelless:
        return payloads(route.format.encode, chosen.served(route), folder, chosen.photo, chosen.batch)
    return tensors.payloads(route.format.protocol, model_of(route, chosen), chosen.batch, chosen.serving)


def check_of(route: Route, chosen: Settings) -> Check:
    """How this route's answers are checked. Raises as requests_of does."""
    if chosen.serving.images or route.modelless:
        return route.format.check
    return partial(tensors.check, route.format.protocol, model_of(route, chosen))


def model_of(route: Route, chosen: Settings) -> tensors.Model:
    """Triton's metadata of the tensor model behind this route. Raises as requests_of does."""
    model = tensors.described(chosen.address(ROUTES["onnx-http"]), chosen.served(route), chosen.serving)
    if chosen.batch > model.largest:
        raise BadSetting(f"{model.name} takes {model.largest} at once: choose batch 1 to {model.largest}")
    return model
