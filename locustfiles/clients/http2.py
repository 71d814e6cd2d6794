"""A client's connection by HTTP/2 (RFC 9113) on a gevent socket, as light as HTTP/1.1's: whole requests, whole answers.

hyperframe reads the frames and hpack the headers. The state machine is our own: h2, theirs, would double the CPU of a
request with a tensor (docs/decisions/0015-the-grpc-load-client.md).
"""

import contextlib
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import gevent
from gevent.event import AsyncResult, Event
from gevent.lock import BoundedSemaphore
from gevent.ssl import SSLSocket
from h2.errors import ErrorCodes
from hpack import Decoder, Encoder, HPACKError
from hyperframe import frame as frames
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import Frame, SettingsFrame

from locustfiles.clients.sockets import connect

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME = 16_384
"""Bytes of a frame that every server takes."""
WINDOW = 65_535
"""Bytes that may be sent before the server has said how many."""
LARGEST = 2**31 - 1
RENEW = 2**30
"""After so many received bytes the window is extended by as many, so answers never wait for the client."""
HEADER_TABLE = 4096
"""Bytes of headers that a server remembers unless it says otherwise."""
BUFFERS = 1024
"""What one sendmsg takes (IOV_MAX)."""

_HEAD = struct.Struct(">BHBBI")
_DATA, _HEADERS, _END_STREAM, _END_HEADERS = 0x0, 0x1, 0x1, 0x4


class StreamReset(Exception):
    """The server reset the stream of this request."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(ErrorCodes(code).name if code in list(ErrorCodes) else f"code {code}")


class _Stream:
    """A request and the part of its answer that has arrived. `over` is set at its end, and holds the error if it
    failed."""

    def __init__(self) -> None:
        self.window = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.over = AsyncResult()

    def fail(self, error: Exception) -> None:
        if not self.over.ready():
            self.over.set_exception(error)


class Connection:
    """An open connection, every request on which has the same headers. Requests at the same time are streams on it.

    Making one raises OSError where nobody listens. A connection that is no longer `usable` takes no new requests.
    """

    def __init__(self, address: str, headers: Sequence[tuple[str, str]]) -> None:
        self.usable = True
        self._request_headers = headers
        self._repeated: bytes | None = None
        self._encoder, self._decoder = Encoder(), Decoder()
        self._block = bytearray()  # an answer's header block, until its last frame
        self._ends = False  # the answer with those headers
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._open = 0
        self._limit = LARGEST  # of streams at once, until the server says how many
        self._window = self._stream_window = WINDOW
        self._received = 0
        self._lost: OSError | None = None
        self._turn = BoundedSemaphore()
        self._changed = Event()
        self._socket = connect(address, "h2")
        settings = SettingsFrame(settings={SettingsFrame.ENABLE_PUSH: 0, SettingsFrame.INITIAL_WINDOW_SIZE: LARGEST})
        self._write([PREFACE + settings.serialize() + frames.WindowUpdateFrame(0, LARGEST - WINDOW).serialize()])
        self._reader = gevent.spawn(self._read)

    def exchange(self, body: Sequence[memoryview]) -> tuple[Sequence[tuple[bytes, bytes]], bytes]:
        """Send one request, its body in pieces; the headers of its answer, with the trailers, and its body.

        Raises StreamReset, and OSError where the connection is lost.
        """
        self._wait(lambda: self._open < self._limit)
        self._open += 1
        left = list(body)
        stream = _Stream()
        number = 0
        try:
            with self._turn:  # the numbers of streams go up as they are sent
                if not self.usable:
                    raise self._lost or OSError("the server went away")
                number, self._next = self._next, self._next + 2
                self._streams[number] = stream
                stream.window = self._stream_window
                self._send(number, left, [_frame(_HEADERS, _END_HEADERS, number, block := self._headers()), block])
            while left and not stream.over.ready():
                self._wait(lambda: stream.over.ready() or min(stream.window, self._window) > 0)
                with self._turn:
                    self._send(number, left, [])
            stream.over.get()
        finally:
            self._open -= 1
            self._tell()
            unfinished = not stream.over.ready() or (left and stream.over.successful())
            if self._streams.pop(number, None) and unfinished:
                self._control(frames.RstStreamFrame(number, ErrorCodes.CANCEL))
        return stream.headers, bytes(stream.body)

    def close(self) -> None:
        self._lose(OSError("the connection was closed"))
        self._reader.kill(block=False)

    def _headers(self) -> bytes:
        """The second time they are all in the server's table, and so every time after."""
        if self._repeated:
            return self._repeated
        block: bytes = self._encoder.encode(self._request_headers)
        self._repeated = self._encoder.encode(self._request_headers)
        return block

    def _send(self, number: int, left: list[memoryview], buffers: list[bytes | memoryview]) -> None:
        """Write the buffers and as much of what is left as the windows allow; take it away from `left`."""
        stream = self._streams[number]
        while left and (size := min(len(left[0]), FRAME, stream.window, self._window)) > 0:
            data, left[0] = left[0][:size], left[0][size:]
            if not left[0]:
                del left[0]
            stream.window -= size
            self._window -= size
            buffers += (_frame(_DATA, 0 if left else _END_STREAM, number, data), data)
        self._write(buffers)

    def _write(self, buffers: list[bytes | memoryview]) -> None:
        if self._lost:
            raise self._lost
        try:
            if isinstance(self._socket, SSLSocket):  # it has no sendmsg
                return self._socket.sendall(b"".join(buffers))
            while buffers:
                sent = self._socket.sendmsg(buffers[:BUFFERS])
                whole = 0
                while whole < len(buffers) and sent >= len(buffers[whole]):
                    sent -= len(buffers[whole])
                    whole += 1
                del buffers[:whole]
                if sent:
                    buffers[0] = memoryview(buffers[0])[sent:]
        except OSError:
            # A server that has answered may have gone already. What it sent is still to be read: the reader loses the
            # connection, at its end.
            self.usable = False
            raise
        except BaseException:  # a user who stops in the middle of a frame: nothing can follow it
            self._lose(OSError("a request was left in its middle"))
            raise

    def _control(self, frame: Frame, then: Callable[[], None] = lambda: None) -> None:
        """Send a frame of the connection's own when it is its turn: the caller does not wait."""

        def write() -> None:
            with self._turn, contextlib.suppress(OSError):
                self._write([frame.serialize()])
                then()

        if not self._lost:
            gevent.spawn(write)

    def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._lost:
                raise self._lost
            self._changed.wait()

    def _tell(self) -> None:
        """Wake all who wait, to check again."""
        self._changed.set()
        self._changed.clear()

    def _lose(self, error: OSError) -> None:
        if self._lost:
            return
        self._lost, self.usable = error, False
        self._socket.close()
        for stream in self._streams.values():
            stream.fail(error)
        self._tell()

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb", 4 * FRAME) as incoming:
                while head := incoming.read(_HEAD.size):
                    frame, length = Frame.parse_frame_header(memoryview(head))
                    frame.parse_body(memoryview(incoming.read(length)))
                    self._handle(frame)
            self._lose(OSError("the server closed the connection"))
        except OSError as error:
            self._lose(error)
        except (HyperframeError, HPACKError, ValueError) as error:
            self._lose(OSError(f"the server sent what is not HTTP/2: {error!r}"))

    def _handle(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream_id)
        if stream and stream.over.ready():
            stream = None  # as for a reset stream: bytes after its end are dropped
        ended = "END_STREAM" in frame.flags
        match frame:
            case frames.DataFrame():
                self._received += frame.flow_controlled_length
                if self._received >= RENEW:
                    self._control(frames.WindowUpdateFrame(0, self._received))
                    self._received = 0
                if stream:
                    stream.body += frame.data
            case frames.HeadersFrame() | frames.ContinuationFrame():
                self._block += frame.data
                self._ends |= ended
                if "END_HEADERS" not in frame.flags:
                    return
                headers = self._decoder.decode(bytes(self._block), raw=True)
                self._block.clear()
                ended, self._ends = self._ends, False
                if stream:
                    stream.headers += headers
            case frames.RstStreamFrame() if stream:
                stream.fail(StreamReset(frame.error_code))
            case frames.WindowUpdateFrame():
                if stream:
                    stream.window += frame.window_increment
                elif not frame.stream_id:
                    self._window += frame.window_increment
                self._tell()
            case SettingsFrame() if "ACK" not in frame.flags:
                # The server uses its settings from our ACK on, so they take effect here only then.
                self._control(SettingsFrame(flags=["ACK"]), partial(self._set, frame.settings))
            case frames.PingFrame() if "ACK" not in frame.flags:
                self._control(frames.PingFrame(opaque_data=frame.opaque_data, flags=["ACK"]))
            case frames.GoAwayFrame():
                self.usable = False
                for number, other in self._streams.items():
                    if number > frame.last_stream_id:
                        other.fail(StreamReset(ErrorCodes.REFUSED_STREAM))
                self._tell()
        if stream and ended:
            stream.over.set()
        if stream and stream.over.ready():
            self._tell()  # whoever still sends its request

    def _set(self, settings: Mapping[int, int]) -> None:
        window = settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, self._stream_window)
        for stream in self._streams.values():
            stream.window += window - self._stream_window
        self._stream_window = window
        self._limit = settings.get(SettingsFrame.MAX_CONCURRENT_STREAMS, self._limit)
        if settings.get(SettingsFrame.HEADER_TABLE_SIZE, HEADER_TABLE) < HEADER_TABLE:
            self._encoder.header_table_size = settings[SettingsFrame.HEADER_TABLE_SIZE]
            self._repeated = None
        self._tell()


def _frame(kind: int, flags: int, stream: int, data: bytes | memoryview) -> bytes:
    """A frame's header."""
    return _HEAD.pack(len(data) >> 16, len(data) & 0xFFFF, kind, flags, stream)
