"""The light gRPC client: against grpcio's server, and against a server of HTTP/2 that says when a rule is broken."""

import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import gevent
import grpc
import pytest
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, PingAckReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame

from locustfiles.clients import CallError, Endpoint, Payload, http2
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.http2 import FRAME
from tests.unit.http2_server import LEADING, Peer, serving

METHOD = "/package.Service/Method"
LARGE = bytes(range(256)) * 80_000
"""20 MB: more than the windows, the buffers of a socket, and what one sendmsg takes."""


def client(address: str, deadline_s: float = 20, **metadata: str) -> contextlib.AbstractContextManager[GrpcClient]:
    return contextlib.closing(GrpcClient(Endpoint(address, METHOD, metadata, deadline_s=deadline_s)))


@contextlib.contextmanager
def other() -> Iterator[tuple[str, socket.socket]]:
    """A socket that accepts connections, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}", listening


def ask(asked: GrpcClient, body: bytes) -> bytes:
    return asked.send(Payload(body, 1)).body


def asked_again(asked: GrpcClient) -> None:
    """Word of what came before comes with the first of two calls at the latest."""
    for _ in range(2):
        assert ask(asked, b"next") == b"next"


def refused(asked: GrpcClient, body: bytes = b"?") -> str:
    """What the error says."""
    with pytest.raises(CallError) as error:
        ask(asked, body)
    return str(error.value)


Answer = Callable[[Peer, int], None]
"""What a server does with a request, by its stream."""


def when_asked(answer: Answer) -> Callable[[Peer, Event], bool]:
    """The script of a server that does this with every whole request."""

    def script(peer: Peer, event: Event) -> bool:
        if isinstance(event, StreamEnded):
            answer(peer, event.stream_id)
        return isinstance(event, StreamEnded)

    return script


def echo(body: bytes, context: grpc.ServicerContext) -> bytes:
    """What it is asked, with metadata before and after; an error for a message that begins with one's code."""
    asked = dict(context.invocation_metadata())
    remaining = context.time_remaining()
    assert remaining is not None
    context.send_initial_metadata((("x-asked", str(asked.get("x-route"))), ("x-both", "before")))
    context.set_trailing_metadata((("x-seconds", f"{remaining:.0f}"), ("x-both", "after")))
    if body.startswith(b"abort"):
        code = next(code for code in grpc.StatusCode if code.value[0] == body[5])
        context.abort(code, "50 % of a fünf\nis gone")
    return body


@pytest.fixture(scope="module")
def grpcio() -> Iterator[str]:
    """The address of grpcio's server."""
    server = grpc.server(ThreadPoolExecutor(32), options=[("grpc.max_receive_message_length", -1)])
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Method": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("package.Service", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


@pytest.mark.parametrize("size", [0, 1, FRAME - 6, FRAME - 5, FRAME - 4, 65_535, 100_000, len(LARGE)])
def test_messages_of_any_size_come_back_whole(grpcio: str, size: int) -> None:
    with client(grpcio) as asked:
        assert [ask(asked, LARGE[:size]) == LARGE[:size] for _ in range(3)] == [True] * 3


def test_metadata_goes_both_ways_and_the_deadline_too(grpcio: str) -> None:
    with client(grpcio, deadline_s=17, **{"x-route": "trt-grpc"}) as asked:
        for _ in range(2):  # once in full, once by the table of headers
            headers = asked.send(Payload(b"?", 1)).headers
            assert headers["x-asked"] == "trt-grpc"
            assert headers["x-both"] == "before, after"
            assert headers["x-seconds"] == "17"


def test_statuses_have_their_names_and_texts(grpcio: str) -> None:
    """Also if a server is silent, and if none listens."""
    with client(grpcio) as asked:
        for code in (code for code in grpc.StatusCode if code.value[0]):
            assert refused(asked, b"abort" + bytes([code.value[0]])) == f"{code.name}: 50 % of a fünf\nis gone"
            assert ask(asked, b"still there") == b"still there"
    with other() as (address, _), client(address, 0.2) as silent:
        assert refused(silent, LARGE).startswith("DEADLINE_EXCEEDED: ")
    with client(address) as nobody:
        assert refused(nobody).startswith("UNAVAILABLE: ")


@pytest.mark.parametrize(
    "text", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\5\0\0\0\0\0\0hello", b"\0\0\1\1\4\0\0\0\1\xff"]
)
def test_a_server_of_something_else(text: bytes) -> None:
    """Bytes that are not frames, data of an unknown stream, malformed headers."""
    with other() as (address, listening), client(address, 5) as asked:
        calling = gevent.spawn(refused, asked)
        with gevent.get_hub().threadpool.apply(listening.accept)[0] as connected:
            connected.sendall(text)
            connected.shutdown(socket.SHUT_WR)
            assert calling.get().startswith("UNAVAILABLE: the server ")


def test_calls_at_the_same_time_share_a_connection_and_its_limits() -> None:
    """Windows of a few bytes, two streams at once, no table of headers: nothing is broken, mixed up or left waiting."""
    small: dict[SettingCodes | int, int] = {
        SettingCodes.INITIAL_WINDOW_SIZE: 1000,
        SettingCodes.MAX_CONCURRENT_STREAMS: 2,
        SettingCodes.HEADER_TABLE_SIZE: 0,
    }
    bodies = [bytes([number]) * (number * 9_000) for number in range(16)]
    with serving(settings=small) as server, client(server.address) as asked:
        ask(asked, b"the settings are known from here on")
        calls = [gevent.spawn(ask, asked, body) for body in bodies]
        gevent.joinall(calls, timeout=20, raise_error=True)
        assert [call.value for call in calls] == bodies
        assert server.accepted == 1
        begun_or_over = [event for event in server.events if isinstance(event, RequestReceived | StreamEnded)]
        running = itertools.accumulate(1 if isinstance(event, RequestReceived) else -1 for event in begun_or_over)
        assert max(running) == 2


def test_settings_change_while_a_request_is_on_its_way() -> None:
    """The window shrinks below what has been sent and opens again. A ping in between is answered."""

    def change(peer: Peer, event: Event) -> bool:
        if isinstance(event, DataReceived) and not peer.bodies[event.stream_id]:
            peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
            peer.h2.ping(b"12345678")
        return False

    with serving(change) as server, client(server.address) as asked:
        assert ask(asked, LARGE[:300_000]) == LARGE[:300_000]
        assert ask(asked, LARGE[:3_000]) == LARGE[:3_000]
        assert [event.ping_data for event in server.seen(PingAckReceived)] == [b"12345678"] * 2


def resets(code: ErrorCodes) -> Answer:
    return lambda peer, stream: peer.h2.reset_stream(stream, code)


def says(*headers: tuple[str, str], body: bytes | None = None) -> Answer:
    def answer(peer: Peer, stream: int) -> None:
        peer.h2.send_headers(stream, headers, end_stream=body is None)
        if body is not None:
            peer.h2.send_data(stream, body, end_stream=True)

    return answer


GOOD = [*LEADING, ("grpc-status", "0")]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (resets(ErrorCodes.REFUSED_STREAM), "UNAVAILABLE: the server reset the call: REFUSED_STREAM"),
        (resets(ErrorCodes.CANCEL), "CANCELLED: the server reset the call: CANCEL"),
        (resets(ErrorCodes.ENHANCE_YOUR_CALM), "RESOURCE_EXHAUSTED: "),
        (resets(ErrorCodes.INADEQUATE_SECURITY), "PERMISSION_DENIED: "),
        (resets(ErrorCodes.INTERNAL_ERROR), "INTERNAL: the server reset the call: INTERNAL_ERROR"),
        (says(*LEADING, ("grpc-status", "8"), ("grpc-message", "too large")), "RESOURCE_EXHAUSTED: too large"),
        (says((":status", "503"), body=b""), "UNAVAILABLE: HTTP 503"),
        (says((":status", "404"), body=b"no such path"), "UNIMPLEMENTED: HTTP 404"),
        (says((":status", "418"), body=b""), "UNKNOWN: HTTP 418"),
        *[(says(*GOOD, body=body), f"INTERNAL: {len(body)} bytes") for body in (b"", b"\0\0\0\0\3ok", b"\1\0\0\0\2ok")],
    ],
)
def test_an_error_before_the_request_is_over(answer: Answer, error: str) -> None:
    """A reset, a refusal, what is not gRPC: the rest is not sent, and a server that did not reset the call is told so.
    The connection goes on."""

    def script(peer: Peer, event: Event) -> bool:
        if isinstance(event, RequestReceived) and event.stream_id == 1:
            answer(peer, 1)
        elif isinstance(event, DataReceived) and event.stream_id == 1:
            peer.h2.acknowledge_received_data(event.flow_controlled_length, 1)
        return getattr(event, "stream_id", None) == 1

    with serving(script, {SettingCodes.INITIAL_WINDOW_SIZE: 10}) as server, client(server.address) as asked:
        assert refused(asked, LARGE).startswith(error)
        asked_again(asked)
        assert server.accepted == 1
        told = [event.error_code for event in server.seen(StreamReset)]
        assert told == ([] if "reset the call" in error or error.endswith(": ") else [ErrorCodes.CANCEL])


def test_a_call_that_is_given_up_is_cancelled() -> None:
    """By its deadline: the server is told, and its late answer is dropped."""

    def late(_: Peer, event: Event) -> bool:
        return isinstance(event, StreamEnded) and event.stream_id == 1

    with serving(late) as server, client(server.address, 0.3) as asked:
        assert refused(asked).startswith("DEADLINE_EXCEEDED: ")
        asked_again(asked)
        assert ([event.stream_id for event in server.seen(StreamReset)], server.accepted) == ([1], 1)


def test_a_server_that_goes_away_is_asked_again_on_another_connection() -> None:
    """What it has begun it ends; what it has not seen is refused."""

    def leave(peer: Peer, event: Event) -> bool:
        if isinstance(event, StreamEnded) and event.stream_id == 3:
            # h2 would take no more frames of call 1.
            peer.socket.sendall(GoAwayFrame(0, last_stream_id=1).serialize())
        return isinstance(event, StreamEnded) and event.stream_id < 5

    with serving(leave) as server, client(server.address, 1) as asked:
        first, second = gevent.spawn(refused, asked), gevent.spawn(refused, asked)
        assert "REFUSED_STREAM" in second.get()
        assert server.accepted == 1
        third = gevent.spawn(refused, asked)
        assert all(call.get().startswith("DEADLINE_EXCEEDED: ") for call in (first, third))
        assert server.accepted == 2


def test_a_connection_that_is_lost_fails_its_calls_and_is_made_again() -> None:
    def hang_up(peer: Peer, event: Event) -> bool:
        if not isinstance(event, StreamEnded) or server.accepted > 1:
            return False
        if event.stream_id == 3:  # both calls are there, and neither is answered
            peer.socket.shutdown(socket.SHUT_RDWR)
        return True

    with serving(hang_up) as server, client(server.address) as asked:
        calls = [gevent.spawn(refused, asked) for _ in range(2)]
        for call in calls:
            assert call.get().startswith("UNAVAILABLE: ")
        assert ask(asked, b"again") == b"again"
        assert server.accepted == 2


def test_an_answer_just_before_the_connection_ends() -> None:
    """It is an answer; the next call makes another connection."""

    def answer_and_leave(peer: Peer, stream: int) -> None:
        peer.answer(stream, b"\0\0\0\0\2ok")
        peer.socket.sendall(peer.h2.data_to_send())
        peer.socket.shutdown(socket.SHUT_RDWR)

    with serving(when_asked(answer_and_leave)) as server, client(server.address) as asked:
        for calls in range(1, 4):
            assert ask(asked, b"?") == b"ok"
            assert asked._connection
            with gevent.Timeout(20):
                while asked._connection.usable:  # until the client hears of it
                    gevent.sleep(0.001)
            assert server.accepted == calls


def test_headers_and_trailers_of_many_frames() -> None:
    """More than one frame takes, before the message and after it: the end of the answer is the end of its trailers."""
    large = [(f"x-{number}", f"{number:04} {'~' * 1000}") for number in range(20)]

    def answer(peer: Peer, stream: int) -> None:
        peer.h2.send_headers(stream, LEADING + large)
        peer.h2.send_data(stream, b"\0\0\0\0\2ok")
        peer.h2.send_headers(stream, [*large[::-1], ("grpc-status", "0")], end_stream=True)

    with serving(when_asked(answer)) as server, client(server.address) as asked:
        for _ in range(3):
            found = asked.send(Payload(b"?", 1))
            assert (found.body, found.headers["x-7"]) == (b"ok", ", ".join([f"0007 {'~' * 1000}"] * 2))


def test_the_server_may_send_as_much_as_it_has_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection's window is renewed."""
    monkeypatch.setattr(http2, "RENEW", 10_000)
    with serving() as server, client(server.address) as asked:
        for _ in range(3):
            ask(asked, bytes(9_000))
        renewed = [event.delta for event in server.seen(WindowUpdated) if event.stream_id == 0 and event.delta]
        assert len(renewed) == 2  # the first is of the connection's beginning
        assert renewed[1] > 18_000
