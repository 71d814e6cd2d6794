"""The rows of study `frames`: video frames to another process and back.

A *frame* costs the same work in every row, all of it on the clock of its call:

- *take*: the camera's next frame, a JPEG as cameras send it (the original decoded a video file), is decoded to RGB:
  simplejpeg, straight into the memory that it is sent from;
- *change*: every byte is inverted by numpy: in the baseline by the same process, else by the server;
- *read*: the CRC-32 of the changed frame, so that every byte is read. It must be that of the inverted frame, which
  proves every call. For the lossy row `jpeg` a sample of the pixels must be within TOLERANCE in the mean;
- *draw*: the changed frame is written to a window's memory, 32 bits a pixel (the original showed it in a window).

A row adds its transport, encoding and decoding, on both sides, for every frame. That is the subject of the study, so
Payload.body is the camera's frame and the row's client does the rest inside the clock (locustfiles/clients/frames.py).
So "client encode" and "client decode" are zero.

`frames-shm-zmq-double` is *double buffered*: a call takes a frame, and reads and draws the one before it, which the
server changed in the meantime. Its frames per second stand beside the others', but a frame is drawn one call later.

Shared memory and the baseline's frames are in pages of 2 MiB, where the kernel has them: the former by its volume
(`frame-memory`, compose.yaml), the latter by asking (own_memory). numpy asks for arrays from 4 MiB on: with that alone
the baseline had them at 1080p and not at 720p.

The camera pans over the sample photos, side by side, in PAN steps: the same frames in the same order everywhere.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from locustfiles.answers import WrongAnswer
from locustfiles.clients import BOTH, UNARY, Answer, Client, Payload
from locustfiles.clients import frames as clients
from locustfiles.payloads import PHOTOS, Images, photos
from locustfiles.routes import Format, Route, by_name

PAN = 16
"""Frames of the pan."""
CAMERA_QUALITY = 90
TOLERANCE = 4.0
"""Of 255: how far the answer of a lossy row may be from the inverted frame, in the mean of the absolute differences.
Two passes of JPEG at quality 95 are about 1 away."""
HD = "1280x720"


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
    assert isinstance(answer, clients.Changed)
    if answer.crc32 != answer.wanted:
        raise WrongAnswer("not the frame that was sent, inverted")


def near(answer: Answer, images: int) -> None:
    """A sample of the pixels is close to those of the frame, inverted."""
    assert isinstance(answer, clients.Changed)
    found, sent = (frame[::37, ::31].astype(np.float32) for frame in (answer.frame, answer.sent))
    if (far := float(np.abs(found - (255 - sent)).mean())) > TOLERANCE:
        raise WrongAnswer(f"on average {far:.1f} of 255 away from the frame that was sent, inverted")


def read(answer: Answer) -> clients.Pixels:
    """The changed frame: it is decoded already."""
    assert isinstance(answer, clients.Changed)
    return answer.frame


def _row(name: str, path: str, client: Callable[..., Client], protocol: str, kind: str = "", **more: Any) -> Route:
    server = {"none": "in-process:0", "gRPC": "frames:50051"}.get(protocol, "frames:8000")
    headers = {"content-type": kind} if kind else {}
    form = Format(protocol, encode, exact, read, headers, max_batch=1, client=client, turns=PAN)
    return Route(name, path, server, replace(form, **more), asks="frame")


def _text(name: str, how: clients.Form, **more: Any) -> Route:
    path = f"/frames/{name.rpartition('-')[2]}"
    return _row(name, path, partial(clients.HttpFrames, how), "HTTP", "application/json", **more)


_SERVICE = "/fiveway.transport.v1.FrameService"
_FORM = f"multipart/form-data; boundary={clients.BOUNDARY}"
ROWS = by_name(
    _row("frames-in-process", "", clients.InProcess, "none"),
    _row("frames-shm-zmq", "zmq", clients.SharedMemory, "ZeroMQ"),
    _row("frames-shm-zmq-double", "zmq", clients.DoubleBuffered, "ZeroMQ"),
    _row("frames-zmq", "zmq", clients.ZmqFrames, "ZeroMQ"),
    _row("frames-grpc", f"{_SERVICE}/Change", partial(clients.GrpcFrames, UNARY), "gRPC"),
    _row("frames-grpc-stream", f"{_SERVICE}/ChangeStream", partial(clients.GrpcFrames, BOTH), "gRPC", messages=BOTH),
    _text("frames-http-jpeg", clients.JPEG, check=near, tolerance=TOLERANCE),
    _text("frames-http-pybase64", clients.PYBASE64),
    _text("frames-http-base64", clients.BASE64),
    _text("frames-http-hex", clients.HEX),
    _row("frames-http-multipart", "/frames/multipart", partial(clients.HttpFrames, clients.MULTIPART), "HTTP", _FORM),
)
