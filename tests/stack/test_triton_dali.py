"""Photos decoded by DALI, as NVIDIA's image does on a GPU: the light image with DALI in it, which decodes on the CPU.

The same golden test and the same refusals as of every route that takes photos, asked of the server itself.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import tritonclient.grpc
from PIL import Image

from chaos.docker import address_of, container, docker
from gateways.core.manifest import Manifest
from gateways.core.serving import ARTIFACTS
from tests import clients
from tests.clients import CLIENTS, MODEL, Vector, files, tensor, tensors
from tests.golden.test_golden import NAMES, SCORE_TOLERANCE, PyTorch, assert_same
from tests.stack.bad_input import CASES_BY_NAME, Grpc, Http, Refusal

pytestmark = pytest.mark.slow

SERVICE = "triton-dali"
COMPOSE = ("compose", "--profile", "tests")
ROUTES = ("onnx-jpeg-http", "onnx-jpeg-grpc")
# For photos that gateways/core decodes scaled, where DALI's mean of blocks rounds otherwise. Of 255, the mean over a
# picture: 0.26 to 0.51 measured; probabilities: 0.009 with efficientnet_lite0. Other photos are the same to the bit.
CLOSE = 1.0
SCORE_TOLERANCE_SCALED = 0.02

refusals = [
    pytest.param(refusal, id=f"{name}-{refusal.route}-{number}")
    for name in ("not an image", "truncated JPEG", "65,500 x 65,500 pixels declared by a 20 kB file", "JPEG of 21 MiB")
    for number, refusal in enumerate(CASES_BY_NAME[name].refusals)
    if refusal.route in ROUTES
]


@pytest.fixture(scope="module", autouse=True)
def triton() -> Iterator[str]:
    """Its address, while the tests of this module run."""
    docker(*COMPOSE, "up", "--detach", "--no-deps", "--wait", SERVICE, timeout=300)
    try:
        yield address_of(SERVICE)
    finally:
        print(docker(*COMPOSE, "logs", "--no-log-prefix", SERVICE))
        docker(*COMPOSE, "rm", "--stop", "--force", SERVICE)


@pytest.fixture(scope="module")
def pytorch() -> PyTorch:
    return PyTorch()


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest, triton: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A route whose client asks this server in the place of the edge."""
    name = str(request.param)
    monkeypatch.setattr(clients, "EDGE", f"{triton}:{8000 if name.endswith('http') else 8001}")
    return name


@pytest.fixture
def decode(triton: str) -> Iterator[Callable[..., Vector]]:
    """The step that decodes, alone: photos in, tensors [N, 3, H, W] out."""
    with tritonclient.grpc.InferenceServerClient(f"{triton}:8001") as client:

        def ask(*jpegs: bytes) -> Vector:
            image = tensor(tritonclient.grpc, "jpeg", files(jpegs))
            return client.infer(f"{MODEL}_preprocess", [image]).as_numpy("image")

        yield ask


def counts() -> Counter[str]:
    """Who has decoded how many photos so far."""
    rows = [line.split() for line in docker("exec", container(SERVICE)["Id"], "providers").splitlines()]
    return Counter({provider: int(count) for model, _, provider, count in rows if model == f"{MODEL}_preprocess"})


def encoded(image: Image.Image, **options: object) -> bytes:
    file = BytesIO()
    image.save(file, "JPEG", quality=90, **options)
    return file.getvalue()


def apart(one: Vector, other: Vector) -> Vector:
    """[N]: how far two batches are from each other, of 255, the mean over each picture."""
    std = np.array(Manifest.load(ARTIFACTS, MODEL).preprocess.std, np.float32).reshape(3, 1, 1)
    return (np.abs(one - other) * std * 255).mean(axis=(1, 2, 3))


@pytest.mark.parametrize("name", NAMES)
def test_one_photo_is_the_same_as_on_every_route(
    route: str, name: str, photos: dict[str, bytes], pytorch: PyTorch
) -> None:
    """The golden test. The scores of a photo that is decoded scaled may be further off."""
    (answer,) = CLIENTS[route]([photos[name]])
    tolerance = SCORE_TOLERANCE_SCALED if min(Image.open(BytesIO(photos[name])).size) > 512 else SCORE_TOLERANCE
    assert_same(answer, pytorch.photo(name, photos[name]), pytorch.manifest.labels, tolerance)


def test_dali_decodes_what_is_plain_and_pillow_the_rest(
    decode: Callable[..., Vector], photos: dict[str, bytes]
) -> None:
    """One batch of everything: each picture is the one that gateways/core makes, and `providers` says who made it."""
    photo = Image.open(BytesIO(photos["lake_720x1280"]))
    turned = Image.Exif()
    turned[0x112] = 3
    rest = [
        encoded(photo.convert("L")), encoded(photo.convert("CMYK")), encoded(photo, exif=turned),
        encoded(photo.resize((1279, 719))), photos["lake_720x1280"] + b"more",
    ]  # fmt: skip
    plain = [*photos.values(), encoded(photo, progressive=True), encoded(photo.resize((50, 60)))]
    before = counts()
    jpegs = [*rest[:2], *plain, *rest[2:]]
    found = apart(decode(*jpegs), tensors(jpegs))
    assert found.max() < CLOSE
    assert not found[[0, 1, -3, -2, -1]].any()
    assert counts() - before == {"DALI": len(plain), "Pillow": len(rest)}


@pytest.mark.parametrize("refusal", refusals)
def test_bad_photos_are_refused_as_on_every_route(triton: str, refusal: Refusal) -> None:
    """The rows of the table of bad input."""
    request = refusal.build()
    assert isinstance(request, Http | Grpc)
    port = 8001 if isinstance(request, Grpc) else 8000
    refusal.holds(replace(request, at=lambda: f"{triton}:{port}"))


def test_a_decoder_with_another_picture_is_not_taken() -> None:
    """It decodes a made-up photo when it loads, and is held against gateways/core."""
    wrong = """
from PIL import Image
from servers.triton.dali import Dali
class Wrong(Dali):
    def images(self, jpegs):
        return [image.point(lambda value: min(255, value + 3)) for image in super().images(jpegs)]
Wrong(256, 1, gpu=False)
"""
    said = docker("exec", container(SERVICE)["Id"], "sh", "-c", f"python3 -c '{wrong}' 2>&1 || true")
    assert "RuntimeError: DALI's picture is 2." in said or "RuntimeError: DALI's picture is 3." in said


def test_a_photo_that_dali_fails_costs_nobody_else_anything(
    decode: Callable[..., Vector], photos: dict[str, bytes]
) -> None:
    """DALI fails all that it decodes together; gateways/core then answers for each, and DALI is asked again."""
    good = photos["lake_720x1280"]
    start = good.index(b"\xff\xc4") + 5
    damaged = good[:start] + b"\xff" * 10 + good[start + 10 :]  # a table of codes that there cannot be
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(decode, good) for _ in range(4)]
        refused = pool.submit(decode, good, damaged)
        asked += [pool.submit(decode, good) for _ in range(4)]
        wanted = tensors([good])
        for call in asked:
            assert apart(call.result(), wanted).max() < CLOSE
        with pytest.raises(tritonclient.utils.InferenceServerException) as error:
            refused.result()
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.value.message() == "jpeg[1] is truncated or damaged: send the whole JPEG file"
    before = counts()
    decode(good)
    assert counts() - before == {"DALI": 1}
