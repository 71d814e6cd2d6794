"""seldon.protos.Seldon/Predict; with the metadata `x-mode: raw` the message is not turned into an array."""

from contextlib import AbstractAsyncContextManager

import grpc
from seldon import prediction_pb2 as pb

from gateways.core.timing import Stages
from gateways.rpc.calls import Context, metadata, refusal, timing
from gateways.rpc.server import KEPT_ALIVE, at_most, describe, listening
from gateways.transport.seldon import payload

SERVICE = pb.DESCRIPTOR.services_by_name["Seldon"].full_name
UNKNOWN = f"no method {{}} here: call /{SERVICE}/Predict"


async def predict(body: bytes, context: Context) -> bytes:
    """One SeldonMessage in, one out. Both are bytes, so malformed ones are answered with INVALID_ARGUMENT, not
    UNKNOWN."""
    stages = Stages()
    try:
        answer = payload.answer(payload.PROTO, body, metadata(context).get("x-mode"), stages)
    except Exception as error:
        await context.abort(*refusal(error, *timing(stages)))
    context.set_trailing_metadata(timing(stages))
    return answer


def running(address: str) -> AbstractAsyncContextManager[int]:
    """The server on `address` (host:port; port 0: a free one); gives the port."""
    server = grpc.aio.server(options=(*KEPT_ALIVE, *at_most(payload.MAX_BODY)))
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Predict": grpc.unary_unary_rpc_method_handler(predict)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    describe(server, SERVICE, unknown=UNKNOWN)
    return listening(server, address)
