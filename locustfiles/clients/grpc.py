"""gRPC with grpcio, made to take turns with the other users of the process.

Import this after gevent has patched the standard library (importing `locust` does). Without `init_gevent` there would
be no error: users would run one at a time and latencies look better than they are. `locustfiles.overlap` proves it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import grpc
import grpc.experimental.gevent
from gevent import monkey

from locustfiles.clients import DEADLINE_S, Answer, CallError, Payload

if not monkey.is_module_patched("threading"):
    raise RuntimeError("import locust (or gevent's monkey patch) before locustfiles.clients.grpc")
grpc.experimental.gevent.init_gevent()

OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A failed call is a result, not something to hide behind a second try.
    ("grpc.enable_retries", 0),
)


class GrpcClient:
    """One channel to `address` ("host:port") for one unary `method` ("/package.Service/Method").

    Channels with the same target share one TCP connection unless told otherwise: `own_connection` tells them.
    """

    def __init__(
        self,
        address: str,
        method: str,
        metadata: Mapping[str, str],
        deadline_s: float = DEADLINE_S,
        on_connect: Callable[[], None] = lambda: None,
        *,
        own_connection: bool = True,
    ) -> None:
        options = (*OPTIONS, ("grpc.use_local_subchannel_pool", int(own_connection)))
        self._channel = grpc.insecure_channel(address, options=options)
        # No serializers: bytes go in and come out, so no protobuf work is on the clock.
        self._call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        self._metadata = tuple(metadata.items())
        self._deadline_s = deadline_s
        self._on_connect: Callable[[], None] | None = on_connect

    def send(self, payload: Payload) -> Answer:
        if self._on_connect:  # the channel connects with its first call
            self._on_connect()
            self._on_connect = None
        try:
            body, call = self._call.with_call(payload.body, timeout=self._deadline_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise CallError(f"{error.code().name}: {(error.details() or '')[:200]}") from error
        return Answer(body, Metadata(call))

    def close(self) -> None:
        self._channel.close()


class Metadata(Mapping[str, str]):
    """What came with an answer, leading and trailing, read when it is first asked for: outside of the clock."""

    def __init__(self, call: grpc.Call) -> None:
        self._call = call

    def __getitem__(self, name: str) -> str:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in (*(self._call.initial_metadata() or ()), *(self._call.trailing_metadata() or ())):
            if isinstance(value, str):
                found[name] = f"{found[name]}, {value}" if name in found else value
        return found
