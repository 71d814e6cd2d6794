"""gRPC with grpcio, made to take turns with the other users of the process.

Import this after gevent has patched the standard library (importing `locust` does). Without `init_gevent` there would
be no error: users would run one at a time and latencies look better than they are. `locustfiles.overlap` proves it.
"""

from collections.abc import Mapping

import grpc
import grpc.experimental.gevent
from gevent import monkey

from locustfiles.clients import DEADLINE_S, Answer, CallError, Payload

if not monkey.is_module_patched("threading"):
    raise RuntimeError("import locust (or gevent's monkey patch) before locustfiles.clients.grpc")
grpc.experimental.gevent.init_gevent()

OPTIONS = (
    # Channels with the same target share one TCP connection unless told otherwise: one connection per user.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A failed call is a result, not something to hide behind a second try.
    ("grpc.enable_retries", 0),
)


class GrpcClient:
    """One channel to `address` ("host:port") for one unary `method` ("/package.Service/Method")."""

    def __init__(self, address: str, method: str, metadata: Mapping[str, str], deadline_s: float = DEADLINE_S) -> None:
        self._channel = grpc.insecure_channel(address, options=OPTIONS)
        # No serializers: bytes go in and come out, so no protobuf work is on the clock.
        self._call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        self._metadata = tuple(metadata.items())
        self._deadline_s = deadline_s

    def send(self, payload: Payload) -> Answer:
        try:
            return Answer(self._call(payload.body, timeout=self._deadline_s, metadata=self._metadata))
        except grpc.RpcError as error:
            raise CallError(f"{error.code().name}: {(error.details() or '')[:200]}") from error

    def close(self) -> None:
        self._channel.close()
