"""The load generator against the real stack: thousands of requests over all routes, and its page in a browser."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bench.studies import STUDIES
from chaos.docker import containers, docker
from tests.browser import Page, open_page
from tests.clients import HOST, LOCUST_PORT, ROUTES
from tests.repository import ROOT

URL = f"http://{HOST}:{LOCUST_PORT}/"
OUTPUT = ROOT / "out"
# What the page says is kept for 2 s.
KEPT_S = 2.1

# The rows of the statistics table: the cells of each, as text.
ROWS = """[...document.querySelectorAll('table tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"""

# The class picker: what is said beside each box. (The box in its head chooses all, and says nothing.)
PICKER = """[...document.querySelectorAll('tr input[type=checkbox]')]
    .map(box => box.closest('tr').innerText.trim().split(/\\s/)[0])"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seconds", "enough"),
    # On two cores, shared with the servers, the routes together make 80 requests a second, in a slow hour 27.
    [(10, 1), pytest.param(45, 2000, marks=pytest.mark.slow)],
)
def test_headless_runs_ask_every_route_and_none_fails(seconds: int, enough: int) -> None:
    """All user classes at once, in a container of their own beside the stack, until there are enough requests."""
    counted, runs = 0, 0
    while counted < enough:
        assert (runs := runs + 1) <= 4, f"{counted} requests"
        result = headless(seconds)
        assert result["errors"] == []
        assert {name: rows["failures"] for name, rows in result["routes"].items()} == dict.fromkeys(ROUTES, 0)
        assert all(rows["requests"] > 0 for rows in result["routes"].values())
        counted += sum(rows["requests"] for rows in result["routes"].values())


@pytest.mark.slow
def test_a_study_s_rows_are_user_classes() -> None:
    """With STUDY in its environment Locust loads the rows of that study in place of the stack's routes."""
    result = headless(15, "STUDY=base")
    assert result["errors"] == []
    assert set(result["routes"]) == set(STUDIES["base"].routes)
    assert {name for name, numbers in result["routes"].items() if not numbers["requests"]} == set()


def headless(seconds: int, variable: str = "STUDY=") -> Any:
    """The result of a run without the page."""
    run = ("compose", "run", "--rm", "--no-deps", "-T", "-e", variable, "locust-master")
    return json.loads(docker(*run, "python", "-m", "locustfiles.headless", "--seconds", str(seconds), timeout=150))


async def test_the_page_runs_a_load_test() -> None:
    """The class picker lists the routes; a run started by its button fills the table with all of them."""
    async with open_page(URL) as page:
        await page.evaluate("fetch('stats/reset', {method: 'POST'}).then(answer => answer.ok)")
        await page.reload()
        await page.wait_for("/READY|STOPPED/.test(document.body?.innerText)")
        if await page.evaluate(f"!!{button('NEW')}"):  # somebody ran a test before us
            await page.evaluate(f"{button('NEW')}.click()")
        await page.wait_for(f"!!{button('START')}")
        assert sorted(filter(None, await page.evaluate(PICKER))) == sorted(ROUTES)
        await page.screenshot(OUTPUT / "locust-start.png")

        await page.evaluate(f"{button('START')}.click()")
        try:
            await page.wait_for("document.body?.innerText.includes('RUNNING')")
            for route in ROUTES:
                await page.wait_for(f"{ROWS}.some(row => row[1] === '{route}' && Number(row[2]) > 0)", seconds=40)
            rows = {row[1]: row for row in await page.evaluate(ROWS) if len(row) > 3}
            await page.screenshot(OUTPUT / "locust-running.png")
            assert {rows[route][0] for route in ROUTES} == {"HTTP", "gRPC"}
            assert {rows[route][3] for route in ROUTES} == {"0"}, "the fourth column counts failures"
            await page.evaluate(f"{button('STOP')}.click()")
            await page.wait_for("document.body?.innerText.includes('STOPPED')")
        finally:  # whatever went wrong, the load ends
            await page.evaluate("fetch('stop', {method: 'POST'}).then(answer => answer.ok)")


async def test_the_routes_tab_shows_every_route() -> None:
    """Every route has a median with two decimals, Locust's own counts and a download of the same numbers."""
    async with open_page(f"{URL}?tab=routes") as page:
        async with load(page):
            await page.wait_for("document.body?.innerText.includes('RUNNING')")
            enough = f"{ROWS}.filter(row => /^[0-9.,]+$/.test(row[3])).length === {len(ROUTES)}"
            await page.wait_for(enough, seconds=60)
            await page.wait_for(f"{ROWS}.some(row => row[3] !== '–' && row[4] !== '–')", seconds=40)
            await page.screenshot(OUTPUT / "locust-routes.png")
        stats = await page.evaluate("fetch('stats/requests').then(answer => answer.json())")
        download = await page.evaluate("fetch('routes.csv').then(answer => answer.text())")
        # The page asks no more once the test is over: it is opened again.
        await page.reload()
        head, *shown = await page.wait_for(f"(rows => rows.length > {len(ROUTES)} && rows)({ROWS})")

    assert head[:6] == ["Route", "Requests", "Failures", "p50 ms", "p90 ms", "p99 ms"]
    table = {row[0]: row for row in shown}
    assert list(table) == list(ROUTES)
    counted = {row["name"]: (row["num_requests"], row["num_failures"]) for row in stats["stats"]}
    for name, row in table.items():
        requests, failures, p50 = (text.replace(",", "") for text in row[1:4])
        assert (int(requests), int(failures)) == counted[name], name
        assert p50 == f"{float(p50):.2f}", name
        assert float(p50) > 0
    lines = {line["route"]: line for line in csv.DictReader(io.StringIO(download))}
    assert list(lines) == list(table)
    for name, line in lines.items():
        # Without the rate of the last 10 s: it changes with the time of asking.
        numbers = [value or "–" for key, value in line.items() if key not in ("route", "images_per_s_now")]
        assert numbers == [text.replace(",", "") for text in [*table[name][1:6], *table[name][7:]]], name


@pytest.mark.slow
async def test_the_connection_policy_reaches_the_workers() -> None:
    """With `shared` no route opens more connections than there are workers, though each has more users."""
    workers = len(containers("locust-worker"))
    form = {"policy": "shared", "user_count": 2 * workers * len(ROUTES)}
    async with open_page(f"{URL}?tab=routes") as page, load(page, **form):
        whole = f"rows.filter(row => row.length > 9 && row[3] !== '–').length > {len(ROUTES)}"
        # In one look: the page draws its table anew every 2 s.
        _, *shown = await page.wait_for(f"(rows => {whole} && rows)({ROWS})", seconds=60)
    assert {row[0]: int(row[-1]) for row in shown if int(row[-1]) > workers} == {}


@asynccontextmanager
async def load(page: Page, **form: Any) -> AsyncIterator[None]:
    """Post the form as the page does, with every field, and open the running page again.

    It ends with the workers' last numbers, which come with their word that they have stopped.
    """
    fields = {"batch": 1, "photo": "224x224", "target": "edge", "policy": "pooled", "host": "http://edge:8080"}
    fields |= {"user_count": 2 * len(ROUTES), "spawn_rate": 100, "shape_class": "Default"} | form
    post = f"fetch('swarm', {{method: 'POST', body: new URLSearchParams({json.dumps(fields)})}})"
    answer = await page.evaluate(f"{post}.then(answer => answer.json())")
    assert answer["success"], answer
    # A page that is opened before the load is there asks for nothing more.
    state = "fetch('stats/requests').then(answer => answer.json()).then(all => all.state)"
    await page.wait_for(f"{state}.then(state => state === 'running')")
    await page.reload()
    try:
        yield
    finally:
        await page.evaluate("fetch('stop', {method: 'POST'}).then(answer => answer.ok)")
        await page.wait_for(f"{state}.then(state => state === 'stopped')", seconds=40)
        await asyncio.sleep(KEPT_S)


def button(text: str) -> str:
    """JavaScript: the button (or link) that says this, or undefined."""
    return f"[...document.querySelectorAll('button, a')].find(one => one.innerText.trim().toUpperCase() === '{text}')"
