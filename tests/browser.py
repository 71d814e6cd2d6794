"""A headless Chromium, driven over its DevTools socket: enough to open a page, ask it and take its picture."""

import asyncio
import base64
import itertools
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

COMMAND = (
    "chromium-headless-shell",
    "--no-sandbox",  # it would need privileges that this container does not have; the page is ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1400,1000",
    "--remote-debugging-port=0",
)
START_S = 30
CALL_S = 30


class Page:
    """One tab. Every call ends within CALL_S or raises."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)

    async def call(self, method: str, **parameters: object) -> Any:
        """One DevTools command and its result."""
        identifier = next(self._ids)
        await self._socket.send_json({"id": identifier, "method": method, "params": parameters})
        async with asyncio.timeout(CALL_S):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == identifier:
                    assert "error" not in message, f"{method}: {message['error']}"
                    return message["result"]

    async def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression, awaited if it is a promise."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    async def wait_for(self, expression: str, *, seconds: float = 20) -> Any:
        """The first truthy value of the expression; fails with the page's text if none comes in time."""
        end = time.monotonic() + seconds
        while not (value := await self.evaluate(expression)):
            if time.monotonic() > end:
                text = await self.evaluate("document.body.innerText")
                raise AssertionError(f"not within {seconds:g} s: {expression}\nThe page says:\n{text}")
            await asyncio.sleep(0.2)
        return value

    async def reload(self) -> None:
        """Load the page again; returns when it has loaded. An expression that is evaluated before that may fail."""
        await self.call("Page.enable")
        await self.call("Page.reload")
        async with asyncio.timeout(CALL_S):
            while (await self._socket.receive_json()).get("method") != "Page.loadEventFired":
                pass

    async def screenshot(self, path: Path) -> None:
        """A PNG of the whole page."""
        picture = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(base64.b64decode(picture["data"]))


@asynccontextmanager
async def open_page(url: str) -> AsyncIterator[Page]:
    """A fresh browser with this page open; it is gone afterwards."""
    with tempfile.TemporaryDirectory() as profile:
        browser = await asyncio.create_subprocess_exec(
            *COMMAND, f"--user-data-dir={profile}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = await _port(Path(profile, "DevToolsActivePort"))
            async with aiohttp.ClientSession() as http:
                async with http.get(f"http://127.0.0.1:{port}/json") as listed:
                    tabs = json.loads(await listed.text())
                address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
                async with http.ws_connect(address, max_msg_size=0) as socket:
                    page = Page(socket)
                    await page.call("Page.navigate", url=url)
                    await page.wait_for("document.readyState === 'complete'")
                    yield page
        finally:
            browser.kill()
            await browser.wait()


async def _port(file: Path) -> int:
    """Chromium writes down which port it took."""
    async with asyncio.timeout(START_S):
        while True:
            if file.exists() and (lines := file.read_text().splitlines()):
                return int(lines[0])
            await asyncio.sleep(0.1)
