"""Video frames to another process and back: in process, shared memory, ZeroMQ, gRPC and HTTP.

What a call does, and which rows there are, is in locustfiles/study_routes/frames.py. As the client works as hard as the
server, its CPU time is a result and no reason for doubt.

The original asked its servers on sockets of the same machine and had no proxy, so all are asked directly, inside the
Compose network (target `direct`). Its HTTP and gRPC went over Unix sockets, ours over TCP; it says itself that this
makes no great difference for messages so large. One user: a camera has one stream.
"""

from collections.abc import Mapping, Sequence

from bench import words
from bench.measure.measured import Cell
from bench.result import NO_VERDICT, Result
from bench.studies.study import MEDIAN, PER_SECOND, Claim, Measure, Ratios, Study, cross, ratios_of, rows_of
from locustfiles.study_routes.frames import HD, ROWS

BASELINE = "frames-in-process"
HTTP_ROWS = [row for row in ROWS if row.startswith("frames-http-")]
FULL_HD = "1920x1080"

# How often all of a frame, or of its encoded form, is written to another place in memory between the camera's decoder
# and the reader. Read from the code of both programs, CPython, protobuf (upb), gRPC, ZeroMQ and uvicorn, not measured.
# The change itself is none. A *socket* is two: into the kernel and out of it. What is said is one way; the other is the
# same, and over HTTP one more: the client's parser gives its buffer as bytes.
COPIES: Mapping[str, int] = {
    BASELINE: 0,
    "frames-shm-zmq": 0,
    "frames-shm-zmq-double": 0,
    # The socket: ZeroMQ sends from where the frame is, and receives a part this large into its own place.
    "frames-zmq": 2 + 2,
    # tobytes; into the message; serialized; to gRPC's slice; the socket; slices to bytes; parsed; the field to bytes.
    "frames-grpc": 9 + 9,
    "frames-grpc-stream": 9 + 9,
    # JPEG; base64; JSON text; its bytes; the socket; blocks joined; to text; JSON's string; from base64; from JPEG. All
    # but the last are of what is a tenth of a frame in size.
    "frames-http-jpeg": 11 + 12,
    # base64; JSON text; its bytes; the socket; blocks joined; to text; JSON's string; from base64.
    "frames-http-pybase64": 9 + 10,
    # As pybase64; and base64 to text, text to base64.
    "frames-http-base64": 11 + 12,
    # As pybase64; and hex to text.
    "frames-http-hex": 10 + 11,
    # There: the form; the socket; the parser's pieces; its file; from there. Back: tobytes; the socket; blocks joined.
    "frames-http-multipart": 6 + 5,
}


def cells(quick: bool) -> Sequence[Cell]:
    """Every row with one user: at 720p, and in the whole study at 1080p."""
    base = Cell(BASELINE, BASELINE, target="direct")
    return cross(base, size=[HD] if quick else [HD, FULL_HD], route=list(ROWS))


def published(cell: Cell) -> Mapping[str, float]:
    """Frames per second of a video whose size is not said: they stand beside both sizes."""
    found = {row["row"]: float(row["fps"]) for row in rows_of("frames_fps.csv")}.get(cell.name)
    return {"published": found} if found else {}


CLAIMS = {
    "shared-memory": Claim(
        "Shared memory is the fastest way to share video frames between processes.",
        "95 fps, ZMQ 50, gRPC 25, HTTP 3.5 to 8.2",
        Ratios([("frames-shm-zmq", row) for row in ("frames-zmq", "frames-grpc", *HTTP_ROWS)], "higher", PER_SECOND),
    ),
    "one-process": Claim(
        "Even shared memory has fewer frames per second than one process alone.",
        "95 fps against 105",
        Ratios([("frames-shm-zmq", BASELINE)], "lower", PER_SECOND),
    ),
    "zmq-grpc": Claim(
        "ZMQ carries twice the frames of gRPC.",
        "50 fps against 25",
        Ratios([("frames-zmq", "frames-grpc")], "higher", PER_SECOND, size=2.0),
    ),
    "grpc-http": Claim(
        "gRPC is much faster than HTTP.",
        "25 fps against 8.2 (JPEG), 4.4, 4.1, 4.0 and 3.5",
        Ratios([("frames-grpc", row) for row in HTTP_ROWS], "higher", PER_SECOND, size=3.0),
    ),
    "jpeg-first": Claim(
        "JPEG and then base64 is faster than base64 of the pixels.",
        "8.2 fps against 4.1 (4.4 with pybase64)",
        Ratios([("frames-http-jpeg", f"frames-http-{row}") for row in ("base64", "pybase64")], "higher", PER_SECOND),
    ),
    "simd-base64": Claim(
        "pybase64 is only a little faster than Python's base64.",
        "4.4 fps against 4.1",
        Ratios([("frames-http-pybase64", "frames-http-base64")], "higher", PER_SECOND, size=4.4 / 4.1),
    ),
    "multipart": Claim(
        "A multipart upload and download is slower even than base64.",
        "3.5 fps against 4.1",
        Ratios([("frames-http-multipart", "frames-http-base64")], "lower", PER_SECOND),
    ),
}

PAIRS: Mapping[tuple[str, str], str] = (
    {(row, BASELINE): "transport" for row in ROWS if row != BASELINE}
    | {pair: "transport" for claim in CLAIMS.values() for pair in claim.shown_by.pairs}
    | {("frames-grpc-stream", "frames-grpc"): "stream", ("frames-http-pybase64", "frames-http-base64"): "base64"}
)


def answer(result: Result) -> list[str]:
    """What shared memory, gRPC and the slowest way cost against one process, in the first size."""
    found = {
        row: ratio
        for (row, other), cell, ratio in ratios_of(result, PER_SECOND)
        if (other, cell.size) == (BASELINE, HD) and ratio.verdict != NO_VERDICT
    }
    if len(found) < 2:
        return []
    ranked = sorted(found, key=lambda row: -(found[row].value or 0))
    rows = dict.fromkeys(row for row in (ranked[0], "frames-grpc", ranked[-1]) if row in found)
    first, *others = (words.between(_way(row), "one process", found[row]) for row in rows)
    return [f"At {HD} {first}.", f"{'; '.join(others)}."]


def _way(row: str) -> str:
    """`gRPC (frames-grpc)`, `hex over HTTP (frames-http-hex)`."""
    way, form = row.split("-")[1], row.rpartition("-")[2]
    ways = {"shm": "shared memory", "zmq": "ZeroMQ", "grpc": "gRPC", "http": f"{form} over HTTP"}
    return f"{ways[way]} ({row})"


FRAMES = Study(
    name="frames",
    question="What does it cost to change a video frame in another process?",
    source="GitHub repository hootoovv/frame_comm_benchmark, commit b672a500e7abffe5e1e14e3bf9d5c09628b6519a, "
    "readme.md (11 March 2024)",
    cells=cells,
    pairs=PAIRS,
    measures=(
        Measure("frames per second", PER_SECOND, published=published),
        MEDIAN,
        Measure("client CPU, ms per frame", "client_cpu_ms"),
        Measure("server CPU, ms per frame", "server_cpu_ms"),
    ),
    columns=("size",),
    claims=CLAIMS,
    flaws=(
        "The server changed nothing in shared memory: it copied the buffer onto itself, so a frame that it never"
        " touched would have looked the same."
        " Shown by: the server changes the frame in every row, and every answer is checked.",
        "Every number included video decoding, drawing text and a window with a wait of a millisecond, and the size of"
        " the video was not stated."
        " Shown by: size, the same work at 720p and at 1080p, drawn but not displayed.",
        "Each way was run once, by editing the program. Its frames per second were the mean of the last three, read off"
        " the window. Shown by: blocks in random order, with intervals.",
        "The HTTP client had no session, so every frame opened a connection. Shown by: policy, --policy pooled,cold.",
    ),
    advice=(
        "On one host, decode into shared memory and send its name. Nothing is copied; only a small message is sent.",
        "Stay one frame ahead (frames-shm-zmq-double): the server changes a frame while the client decodes the next. "
        "This needs a second slot, and a frame is drawn one frame later.",
        "Between hosts, send what the camera sent. No transport makes up for decoding it and encoding it again.",
        "Do not put pixels into text. Base64, hex and JSON each make another, larger copy of the frame.",
    ),
    no_gate="The client's work is what is measured.",
    answer=answer,
    declared={"copies per frame": COPIES},
    seconds=1.2,
    warm_s=0.5,
    blocks=9,
)
