"""The front page of the one port, in a browser: what it says and shows, and the lines that it offers."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import Page, open_page
from tests.clients import EDGE, ROUTES
from tests.repository import ROOT

OUTPUT = ROOT / "out"
PHOTO = ROOT / "models" / "photos" / "otter_360x640.jpg"
VERSION = (ROOT / "VERSION").read_text().strip()
HTTP = {route for route in ROUTES if route.endswith("-http")}

CARDS = """Object.fromEntries([...document.querySelectorAll('.card')].map(card => [card.id, {
    state: card.querySelector('.state').innerText, answer: card.querySelector('.answer').innerText,
    lines: [...card.querySelectorAll('pre')].map(line => line.textContent),
    saved: card.querySelector('a[download]')?.download ?? ''}]))"""
CALM = f"document.querySelectorAll('.state.healthy, .state.unhealthy').length === {len(ROUTES)}"
ASKED = f"document.querySelectorAll('.answer[data-state]').length === {len(HTTP)}"


async def test_a_photo_is_answered_by_every_http_route(tmp_path: Path) -> None:
    """Every route is healthy; the same class comes first everywhere, with times and bytes; each offered line works."""
    async with open_page(f"http://{EDGE}/") as page:
        await page.wait_for(CALM)
        await page.evaluate("document.querySelector('#samples button').click()")
        await page.wait_for(ASKED, seconds=60)
        cards = await page.evaluate(CARDS)
        assert await page.evaluate("document.querySelector('h1').innerText") == f"fiveway {VERSION}"
        assert "real weights" in await page.evaluate("document.getElementById('served').innerText")
        assert "OpenVINO" in await page.evaluate("document.getElementById('servers').innerText")
        await picture(page, "front-page", 1400)
        await picture(page, "front-page-narrow", 390)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        for route, card in cards.items():
            if card["saved"]:
                (tmp_path / card["saved"]).write_bytes(await saved(page, route))

    assert set(cards) == set(ROUTES)
    assert {card["state"].strip("● ") for card in cards.values()} == {"healthy"}
    for route in HTTP:
        said = cards[route]["answer"]
        assert said.startswith("otter 9"), route
        assert " bytes sent" in said, route
    assert all(stage in cards["jpeg-http"]["answer"] for stage in ("preprocess", "queue", "compute"))

    (tmp_path / "photo.jpg").symlink_to(PHOTO)
    (tmp_path / "proto").symlink_to(ROOT / "proto")
    for route, card in cards.items():
        assert len(card["lines"]) == (1 if route.endswith("-grpc") and route.startswith(("onnx", "trt")) else 2), route
        for line in card["lines"]:
            shell = line.startswith(("curl", "grpcurl"))
            command = ["bash", "-c", line] if shell else [sys.executable, "-c", line]
            done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, timeout=60, check=False)
            assert done.returncode == 0, f"{route}: {line}\n{done.stderr.decode()}"
            answer = done.stdout or (tmp_path / "answer").read_bytes()
            assert b"otter" in answer or b"[360 " in answer or len(answer) > 4000, f"{route}: {line}\n{answer!r}"


ENVIRONMENT = os.environ | {"PYTHONPATH": "proto/gen"}


async def picture(page: Page, name: str, width: int) -> None:
    """A picture of the page in a window of this width."""
    await page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )
    await page.screenshot(OUTPUT / f"{name}.png")


async def saved(page: Page, route: str) -> bytes:
    """What the link of the card saves: the page may not fetch it, so it is made again."""
    made = f"""(async () => {{
        const photo = await (await fetch('/samples/otter.jpg')).blob()
        const route = routesOf(await json('/served')).find(route => route.name === '{route}')
        return base64((await route.make(photo)).body)
    }})()"""
    return base64.b64decode(await page.evaluate(made))


@pytest.mark.parametrize(("photo", "says"), [("not a photo", "image"), ("", "empty")])
async def test_a_file_that_is_no_photo_is_refused_by_name(photo: str, says: str) -> None:
    """Each route's card has its server's own words; the next photo is answered."""
    async with open_page(f"http://{EDGE}/") as page:
        await page.wait_for(CALM)
        await page.evaluate(f"json('/served').then(served => askAll(routesOf(served), new Blob(['{photo}'])))")
        await page.wait_for(ASKED, seconds=60)
        assert says in await page.evaluate("document.querySelector('#jpeg-http .answer').innerText")
        assert await page.evaluate("document.querySelectorAll('.problem').length") == len(HTTP)
