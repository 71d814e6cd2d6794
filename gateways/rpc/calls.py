"""Metadata and errors of gRPC calls."""

import logging
from collections.abc import AsyncIterator

import grpc

from gateways.core.errors import RETRY_S, ServeError, Status, told
from gateways.core.timing import Stages

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[bytes, object]


def refusal(
    error: BaseException, *metadata: tuple[str, str]
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    """The arguments of `abort` for an error, with this trailing metadata. Text that was not written for clients goes to
    the log only."""
    failure = told(error, log)
    hint = (("grpc-retry-pushback-ms", str(1000 * RETRY_S)),) if failure.status.later else ()
    return grpc.StatusCode[failure.status.grpc], failure.message, (*metadata, *hint)


def metadata(context: Context) -> dict[str, str]:
    """The request's metadata; the last one of a key that was sent twice."""
    sent = context.invocation_metadata() or ()
    return {key: value.decode(errors="replace") if isinstance(value, bytes) else value for key, value in sent}


def timing(stages: Stages) -> tuple[tuple[str, str]]:
    """Trailing metadata: where the time went."""
    return (("server-timing", stages.header()),)


class UnknownMethods(grpc.GenericRpcHandler):
    """The last handler. It says which methods exist, where gRPC would only say "Method not found!"."""

    def __init__(self, text: str) -> None:
        """`text` has the method's name at its {}."""
        self._text = text

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        unknown = ServeError(Status.UNIMPLEMENTED, self._text.format(handler_call_details.method))

        async def refuse(_: AsyncIterator[bytes], context: Context) -> None:
            await context.abort(*refusal(unknown))

        return grpc.stream_stream_rpc_method_handler(refuse)
