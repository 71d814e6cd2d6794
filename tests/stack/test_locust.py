"""The load generator against the real stack: thousands of requests over all routes, and its page in a browser."""

import json
from pathlib import Path

import pytest

from tests.browser import Page, open_page
from tests.clients import HOST, LOCUST_PORT, ROUTES
from tests.docker import docker
from tests.repository import ROOT

URL = f"http://{HOST}:{LOCUST_PORT}/"
OUTPUT = ROOT / "out"
SECONDS = 45
# On two cores, shared with the servers, the routes together make about 80 requests a second.
AT_LEAST = 2000

# The rows of the statistics table: the cells of each, as text.
ROWS = """[...document.querySelectorAll('table tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"""

# The class picker: what is said beside each box. (The box in its head chooses all, and says nothing.)
PICKER = """[...document.querySelectorAll('tr input[type=checkbox]')]
    .map(box => box.closest('tr').innerText.trim().split(/\\s/)[0])"""


@pytest.mark.timeout(SECONDS + 120)
def test_thousands_of_requests_over_all_routes_and_none_fails() -> None:
    """A headless run of every user class at once, in a container of its own beside the stack."""
    run = ("compose", "run", "--rm", "--no-deps", "-T", "locust-master", "python", "-m", "locustfiles.headless")
    result = json.loads(docker(*run, "--seconds", str(SECONDS), "--at-least", str(AT_LEAST), timeout=SECONDS + 100))
    (OUTPUT / "locust.json").write_text(json.dumps(result, indent=2))
    assert result["errors"] == []
    assert set(result["routes"]) == set(ROUTES)
    for name, numbers in result["routes"].items():
        assert numbers["requests"] > 0, name
        assert numbers["failures"] == 0, name
    assert sum(numbers["requests"] for numbers in result["routes"].values()) >= AT_LEAST


async def test_the_page_runs_a_load_test() -> None:
    """The class picker lists the nine routes; a run started by its button fills the table with all of them."""
    async with open_page(URL) as page:
        await page.evaluate("fetch('stats/reset', {method: 'POST'}).then(answer => answer.ok)")
    async with open_page(URL) as page:
        await page.wait_for("/READY|STOPPED/.test(document.body.innerText)")
        if await page.evaluate(f"!!{button('NEW')}"):  # somebody ran a test before us
            await page.evaluate(f"{button('NEW')}.click()")
        await page.wait_for(f"!!{button('START')}")
        assert sorted(filter(None, await page.evaluate(PICKER))) == sorted(ROUTES)
        await picture(page, "locust-start")

        await page.evaluate(f"{button('START')}.click()")
        try:
            await page.wait_for("document.body.innerText.includes('RUNNING')")
            for route in ROUTES:
                await page.wait_for(f"{ROWS}.some(row => row[1] === '{route}' && Number(row[2]) > 0)", seconds=40)
            rows = {row[1]: row for row in await page.evaluate(ROWS) if len(row) > 3}
            await picture(page, "locust-running")
            assert {rows[route][0] for route in ROUTES} == {"HTTP", "gRPC"}
            assert {rows[route][3] for route in ROUTES} == {"0"}, "the fourth column counts failures"
            await page.evaluate(f"{button('STOP')}.click()")
            await page.wait_for("document.body.innerText.includes('STOPPED')")
        finally:  # whatever went wrong, the load ends
            await page.evaluate("fetch('stop', {method: 'POST'}).then(answer => answer.ok)")


def button(text: str) -> str:
    """JavaScript: the button (or link) that says this, or undefined."""
    return f"[...document.querySelectorAll('button, a')].find(one => one.innerText.trim().toUpperCase() === '{text}')"


async def test_the_page_refuses_what_cannot_run() -> None:
    """A batch that TorchServe's routes cannot take is refused with its reason, and nothing is started."""
    start = "fetch('swarm', {method: 'POST', body: new URLSearchParams({user_count: 9, spawn_rate: 9, batch: 33})})"
    async with open_page(URL) as page:
        answer = await page.evaluate(f"{start}.then(answer => answer.json())")
        state = await page.evaluate("fetch('stats/requests').then(answer => answer.json())")
    assert answer["success"] is False
    assert "choose 1 to 32 images" in answer["message"]
    assert state["state"] not in ("spawning", "running")


async def picture(page: Page, name: str) -> None:
    OUTPUT.mkdir(exist_ok=True)
    await page.screenshot(Path(OUTPUT, f"{name}.png"))
