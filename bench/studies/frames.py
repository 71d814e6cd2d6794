"""Video frames to another process and back: in process, shared memory, ZeroMQ, gRPC and HTTP.

A *frame* costs the same work in every row, all of it on the clock of its call:

- *take*: the camera's next frame, a JPEG as cameras send it (the original decoded a video file), is decoded to RGB:
  simplejpeg, straight into the memory that it is sent from;
- *change*: every byte is inverted by numpy: in the baseline by the same process, else by the server;
- *read*: its CRC-32 where it arrived, so that every byte is read. It must be the one of the inverted frame: every call
  is proved, but for the lossy row `jpeg`, where a sample of the pixels must be within TOLERANCE in the mean;
- *draw*: the changed frame is written to a window's memory, 32 bits a pixel (the original showed it in a window).

What a row adds is its transport and its own encoding and decoding, on both sides, for every frame: here that is what is
measured, so Payload.body is the camera's frame and the client of a row does the rest (locustfiles/clients/frames.py).
"Client encode" and "client decode" are therefore nothing. As the client works as hard as the server, its CPU time is a
result and no reason for doubt: the study has no gate.

`frames-shm-zmq-double` is *double buffered*: a call takes a frame, and reads and draws the one before it, which the
server changed in the meantime. Its frames per second stand beside the others', but a frame is drawn one call later.

Shared memory and the baseline's frames are in pages of 2 MiB, where the kernel has them: the former by its volume
(`frame-memory`, compose.yaml), the latter by asking (own_memory). numpy asks for arrays from 4 MiB on: with that alone
the baseline had them at 1080p and not at 720p.

The camera pans over the sample photos, side by side, in PAN steps: the same frames in the same order everywhere.

The original asked its servers on sockets of the same machine and had no proxy, so all are asked directly, inside the
Compose network (target `direct`). Its HTTP and gRPC went over Unix sockets, ours over TCP; it says itself that this
makes no great difference for messages so large. One user: a camera has one stream.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from bench.measure.measured import Cell
from bench.studies.study import HIGHER, LOWER, MEDIAN, PER_SECOND, Claim, Measure, Study, cross, rows_of
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, Client, Payload
from locustfiles.clients.frames import (
    BASE64,
    BOUNDARY,
    HEX,
    JPEG,
    PYBASE64,
    Changed,
    DoubleBuffered,
    GrpcFrames,
    InProcess,
    MultipartFrames,
    Pixels,
    SharedMemory,
    TextFrames,
    ZmqFrames,
)
from locustfiles.payloads import PHOTOS, Images, photos
from locustfiles.routes import BOTH, UNARY, Format, Route

PAN = 16
"""Frames of the pan."""
CAMERA_QUALITY = 90
TOLERANCE = 4.0
"""Of 255: how far the answer of a lossy row may be from the inverted frame, in the mean of the absolute differences.
Two passes of JPEG at quality 95 are about 1 away."""
HD, FULL_HD = "1280x720", "1920x1080"


@cache
def camera(size: str) -> Sequence[Payload]:
    """The frames of the pan as the camera sends them, with their width, height, and the CRC-32 of each one inverted."""
    width, height = map(int, size.split("x"))
    scene = np.concatenate([_photo(name) for name in photos("1080x1920")], axis=1)
    room = scene.shape[0] - height, scene.shape[1] - width
    frames = []
    for step in range(PAN):
        top, left = (way * step // (PAN - 1) for way in room)
        window = np.ascontiguousarray(scene[top : top + height, left : left + width])
        jpeg = simplejpeg.encode_jpeg(window, quality=CAMERA_QUALITY, colorsubsampling="420")
        wanted = zlib.crc32(np.invert(simplejpeg.decode_jpeg(jpeg)))
        headers = {"width": str(width), "height": str(height), "crc32": str(wanted)}
        frames.append(Payload(jpeg, 1, headers))
    return frames


def _photo(name: str) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = simplejpeg.decode_jpeg((PHOTOS / f"{name}.jpg").read_bytes())
    return found


def encode(images: Images) -> Payload:
    """The camera's frame number `images.turn`."""
    return camera(images.size)[images.turn]


def exact(answer: Answer, images: int) -> None:
    """The whole frame, inverted."""
    assert isinstance(answer, Changed)
    if answer.crc32 != answer.wanted:
        raise WrongAnswer("not the frame that was sent, inverted")


def near(answer: Answer, images: int) -> None:
    """A sample of the pixels is close to those of the frame, inverted."""
    assert isinstance(answer, Changed)
    found, sent = (frame[::37, ::31].astype(np.float32) for frame in (answer.frame, answer.sent))
    if (far := float(np.abs(found - (255 - sent)).mean())) > TOLERANCE:
        raise WrongAnswer(f"on average {far:.1f} of 255 away from the frame that was sent, inverted")


def read(answer: Answer) -> Pixels:
    """The changed frame: it is decoded already."""
    assert isinstance(answer, Changed)
    return answer.frame


def _row(
    name: str,
    path: str,
    client: Callable[..., Client],
    *,
    protocol: str = "HTTP",
    server: str = "frames:8000",
    kind: str = "",
    messages: str = UNARY,
    lossy: bool = False,
) -> Route:
    return Route(
        f"frames-{name}",
        path,
        server,
        Format(
            protocol,
            encode,
            near if lossy else exact,
            {"content-type": kind} if kind else {},
            max_batch=1,
            read=read,
            messages=messages,
            client=client,
            turns=PAN,
            tolerance=TOLERANCE if lossy else 0.0,
        ),
        asks="frame",
        modelless=True,
    )


_JSON = "application/json"
_SERVICE = "/fiveway.transport.v1.FrameService"
IN_PROCESS, SHM, ZMQ = "frames-in-process", "frames-shm-zmq", "frames-zmq"
DOUBLE = "frames-shm-zmq-double"
GRPC, STREAM = "frames-grpc", "frames-grpc-stream"
JPEG_HTTP, PYBASE64_HTTP, BASE64_HTTP = "frames-http-jpeg", "frames-http-pybase64", "frames-http-base64"
HEX_HTTP, MULTIPART_HTTP = "frames-http-hex", "frames-http-multipart"
HTTP_ROWS = (JPEG_HTTP, PYBASE64_HTTP, BASE64_HTTP, HEX_HTTP, MULTIPART_HTTP)

ROWS: Mapping[str, Route] = {
    route.name: route
    for route in (
        _row("in-process", "", InProcess, protocol="none", server="in-process:0"),
        _row("shm-zmq", "zmq", SharedMemory, protocol="ZeroMQ"),
        _row("shm-zmq-double", "zmq", DoubleBuffered, protocol="ZeroMQ"),
        _row("zmq", "zmq", ZmqFrames, protocol="ZeroMQ"),
        _row("grpc", f"{_SERVICE}/Change", GrpcFrames, protocol="gRPC", server="frames:50051"),
        _row(
            "grpc-stream",
            f"{_SERVICE}/ChangeStream",
            GrpcFrames,
            protocol="gRPC",
            server="frames:50051",
            messages=BOTH,
        ),
        _row("http-jpeg", "/frames/jpeg", partial(TextFrames, JPEG), kind=_JSON, lossy=True),
        _row("http-pybase64", "/frames/pybase64", partial(TextFrames, PYBASE64), kind=_JSON),
        _row("http-base64", "/frames/base64", partial(TextFrames, BASE64), kind=_JSON),
        _row("http-hex", "/frames/hex", partial(TextFrames, HEX), kind=_JSON),
        _row("http-multipart", "/frames/multipart", MultipartFrames, kind=f"multipart/form-data; boundary={BOUNDARY}"),
    )
}

# How often all of a frame, or of its encoded form, is written to another place in memory between the camera's decoder
# and the reader. Read from the code of both programs, CPython, protobuf (upb), gRPC, ZeroMQ and uvicorn, not measured.
# The change itself is none. A *socket* is two: into the kernel and out of it. What is said is one way; the other is the
# same, and over HTTP one more: the client's parser gives its buffer as bytes.
COPIES: Mapping[str, int] = {
    IN_PROCESS: 0,
    SHM: 0,
    DOUBLE: 0,
    # The socket: ZeroMQ sends from where the frame is, and receives a part this large into its own place.
    ZMQ: 2 + 2,
    # tobytes; into the message; serialized; to gRPC's slice; the socket; slices to bytes; parsed; the field to bytes.
    GRPC: 9 + 9,
    STREAM: 9 + 9,
    # JPEG; base64; JSON text; its bytes; the socket; blocks joined; to text; JSON's string; from base64; from JPEG. All
    # but the last are of what is a tenth of a frame in size.
    JPEG_HTTP: 11 + 12,
    # base64; JSON text; its bytes; the socket; blocks joined; to text; JSON's string; from base64.
    PYBASE64_HTTP: 9 + 10,
    # As pybase64; and base64 to text, text to base64.
    BASE64_HTTP: 11 + 12,
    # As pybase64; and hex to text.
    HEX_HTTP: 10 + 11,
    # There: the form; the socket; the parser's pieces; its file; from there. Back: tobytes; the socket; blocks joined.
    MULTIPART_HTTP: 6 + 5,
}


def cells(quick: bool) -> Sequence[Cell]:
    """Every row with one user: at 720p, and in the whole study at 1080p."""
    base = Cell(IN_PROCESS, IN_PROCESS, target="direct")
    return cross(base, size=[HD] if quick else [HD, FULL_HD], route=list(ROWS))


_PUBLISHED_ROWS = {
    "baseline_in_process": IN_PROCESS,
    "shm_zmq": SHM,
    "zmq": ZMQ,
    "grpc": GRPC,
    "jpeg_base64_http": JPEG_HTTP,
    "pybase64_http": PYBASE64_HTTP,
    "base64_http": BASE64_HTTP,
    "hex_http": HEX_HTTP,
    "multipart_http": MULTIPART_HTTP,
}
FPS: Mapping[str, float] = {_PUBLISHED_ROWS[row["method"]]: float(row["fps"]) for row in rows_of("frames_fps.csv")}
"""Row -> the published frames per second, of a video whose size is not said."""


def published(cell: Mapping[str, Any]) -> Mapping[str, float]:
    """Beside both sizes."""
    found = FPS.get(cell["name"])
    return {"published": found} if found else {}


def _claim(name: str, says: str, numbers: str, pairs: Sequence[tuple[str, str]], side: str, **more: Any) -> Claim:
    return Claim(name, says, numbers, pairs, side, measure=PER_SECOND, **more)


CLAIMS = (
    _claim(
        "shared-memory",
        "Shared memory is the fastest way to share video frames between processes.",
        "95 fps, ZMQ 50, gRPC 25, HTTP 3.5 to 8.2",
        [(SHM, row) for row in (ZMQ, GRPC, *HTTP_ROWS)],
        HIGHER,
    ),
    _claim(
        "one-process",
        "Even shared memory has fewer frames per second than one process alone.",
        "95 fps against 105",
        [(SHM, IN_PROCESS)],
        LOWER,
    ),
    _claim("zmq-grpc", "ZMQ carries twice the frames of gRPC.", "50 fps against 25", [(ZMQ, GRPC)], HIGHER, size=2.0),
    _claim(
        "grpc-http",
        "gRPC is much faster than HTTP.",
        "25 fps against 8.2 (JPEG), 4.4, 4.1, 4.0 and 3.5",
        [(GRPC, row) for row in HTTP_ROWS],
        HIGHER,
        size=3.0,
    ),
    _claim(
        "jpeg-first",
        "JPEG and then base64 is faster than base64 of the pixels.",
        "8.2 fps against 4.1 (4.4 with pybase64)",
        [(JPEG_HTTP, BASE64_HTTP), (JPEG_HTTP, PYBASE64_HTTP)],
        HIGHER,
    ),
    _claim(
        "simd-base64",
        "pybase64 is only a little faster than Python's base64.",
        "4.4 fps against 4.1",
        [(PYBASE64_HTTP, BASE64_HTTP)],
        HIGHER,
    ),
    _claim(
        "multipart",
        "A multipart upload and download is slower even than base64.",
        "3.5 fps against 4.1",
        [(MULTIPART_HTTP, BASE64_HTTP)],
        LOWER,
    ),
)

PAIRS: Mapping[tuple[str, str], str] = (
    {(row, IN_PROCESS): "transport" for row in ROWS if row != IN_PROCESS}
    | {pair: "transport" for claim in CLAIMS for pair in claim.pairs}
    | {(STREAM, GRPC): "stream", (PYBASE64_HTTP, BASE64_HTTP): "base64"}
)


def answer(result: Mapping[str, Any]) -> str:
    """What each way keeps of the frames per second of one process, size by size."""
    sizes = {cell["id"]: cell["size"] for cell in result["cells"]}
    kept: dict[str, list[tuple[float, str]]] = {}
    for ratio in result["analysis"]["ratios"]:
        to_baseline = (ratio["b_name"], ratio["measure"]) == (IN_PROCESS, PER_SECOND)
        if to_baseline and ratio["value"] and ratio["verdict"] != "no verdict":
            kept.setdefault(sizes[ratio["a"]], []).append((ratio["value"], ratio["a_name"]))
    said = [
        f"{size} {', '.join(f'{name} {share:.3g}' for share, name in sorted(found, reverse=True))}"
        for size, found in kept.items()
    ]
    return f"On this machine, of one process's frames per second are kept at {'; at '.join(said)}." if said else ""


FRAMES = Study(
    name="frames",
    question="What does it cost to have a video frame changed in another process?",
    source=(
        "GitHub repository hootoovv/frame_comm_benchmark, commit b672a500e7abffe5e1e14e3bf9d5c09628b6519a, "
        "readme.md (11 March 2024)"
    ),
    routes=ROWS,
    cells=cells,
    pairs=PAIRS,
    measures=(
        Measure("frames per second", PER_SECOND),
        MEDIAN,
        Measure("client CPU, ms per frame", "client_cpu_ms"),
        Measure("server CPU, ms per frame", "server_cpu_ms"),
    ),
    columns=("size",),
    claims=CLAIMS,
    published=published,
    flaws=(
        (
            "In shared memory nothing was changed: the server copied the buffer onto itself, so a frame that it never "
            "touched would have looked the same.",
            "every row's frame is changed by the server, and every answer is checked",
        ),
        (
            "Video decoding, drawing text and a window with a wait of a millisecond were in every number, and the size "
            "of the video is not said: the ratios are of that work too.",
            "size: the same work at 720p and at 1080p, drawn, but not shown",
        ),
        (
            "Each way was run once, by editing the program; frames per second were the mean of the last three, read "
            "off the window.",
            "blocks in random order, intervals",
        ),
        (
            "The HTTP client had no session: a connection for every frame.",
            "policy: --policy pooled,cold",
        ),
    ),
    advice=(
        "On one host, decode into shared memory and send its name: nothing is copied, a small message is what is left.",
        "Stay one frame ahead (frames-shm-zmq-double): the server changes a frame while the client decodes the next. "
        "It costs a second slot, and a frame is drawn one frame later.",
        "Between hosts, send what the camera sent: no transport repays decoding it and encoding it again.",
        "Do not put pixels into text: every step of base64, hex or JSON is another copy of a frame that has grown.",
    ),
    # The client's work is what is measured.
    gate=math.inf,
    answer=answer,
    declared={"copies per frame": COPIES},
    seconds=2.1,
)
