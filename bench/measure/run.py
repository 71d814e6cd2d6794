"""A run: check that the routes agree, visit every cell block by block, and keep what was measured even if the run
fails."""

import math
from collections.abc import Callable
from typing import Any

from bench.measure.launcher import Launcher, LoadError
from bench.measure.measured import FINISHED, INTERRUPTED, Run, Visit, now
from bench.measure.plan import FAIR, Plan
from bench.measure.progress import Progress
from locustfiles import serving


def carry_out(
    plan: Plan,
    load: Launcher,
    environment: dict[str, Any],
    options: dict[str, Any],
    progress: Progress,
    save: Callable[[Run], None],
) -> Run:
    """Measure a plan. `save` gets the run after every block, so an early end loses the visits of one block at most.
    Ctrl-C and errors that affect every visit end the run early: `Run.ended` says why.
    """
    run = Run(plan.study, now(), plan.method, options, environment, cells=[(cell, []) for cell in plan.cells])
    visits = dict(run.cells)
    model, made = served_model(), 0
    precisions = {name: engine["precision"] for name, engine in (environment.get("engines") or {}).items()}
    try:
        progress.say("Comparing the answers of the routes")
        run.parity = load.parity(plan.cells, precisions)
        silent = {route for route, found in run.parity.items() if found["cosine"] is None}
        if silent == {cell.route for cell in plan.cells}:
            why = next(iter(run.parity.values()))["why"]
            raise LoadError(f"no route answers: {why}{'' if plan.most_calls else ': is the stack up? (./scripts/up)'}")
        for route in sorted(silent):
            progress.say(f"{route} is left out: {run.parity[route]['why']}")
        for block in range(1, plan.blocks + 1):
            position = 1
            for together in plan.order(block):
                progress.next(f"block {block}/{plan.blocks}: {together[0].id}", len(together))
                asked = [cell for cell in together if cell.route not in silent]
                for cell in together:
                    if cell.route in silent:
                        visits[cell].append(Visit(block, position, now(), problem=run.parity[cell.route]["why"]))
                found = load.visits([(cell, plan.window(cell)) for cell in asked], block, position) if asked else []
                position += len(together)
                for cell, visit in zip(asked, found, strict=True):
                    visits[cell].append(visit)
                    made += visit.requests + visit.failures
                    if visit.problem:
                        progress.say(f"{cell.id}: {visit.problem}")
                if made >= (plan.most_calls or math.inf):
                    raise LoadError(f"{made} calls were made, and --calls allows {plan.most_calls}")
                if served_model() != model:
                    for visit in found:
                        visit.problem = "the model was changed during this visit"
                    raise LoadError(
                        "the model was changed during the run: what was measured before stays, run it again"
                    )
            save(run)
        if plan.method == FAIR:
            _still_agree(run, load.parity(plan.cells, precisions))
        run.ended = FINISHED
    except KeyboardInterrupt:
        run.ended = INTERRUPTED
    except LoadError as error:
        run.ended = str(error)
    save(run)
    return run


def problems(run: Run) -> list[str]:
    """Why this run is incomplete: a line each; empty if it is complete."""
    found = [] if run.ended == FINISHED else [f"the run ended early: {run.ended}"]
    for cell, visits in run.cells:
        lost = [visit for visit in visits if visit.problem]
        if lost:
            found.append(f"{cell.id}: {len(lost)} of {len(visits)} visits measured nothing: {lost[-1].problem}")
    return found


def served_model() -> tuple[object, ...]:
    """The name and build of the served model: if either changes, it is another model."""
    try:
        served = serving.now()
    except serving.NothingServed as nothing:
        raise LoadError(str(nothing)) from None
    try:
        manifest = (serving.artifacts() / served.model / "manifest.json").read_bytes()
    except OSError:  # somebody else's repository
        manifest = b""
    return served.model, served.models, manifest


def _still_agree(run: Run, after: dict[str, dict[str, Any]]) -> None:
    """Mark a route whose answers changed while it was measured."""
    for route, found in after.items():
        if run.parity[route]["agrees"] and not found["agrees"]:
            run.parity[route] = found | {"why": f"after the run it no longer agreed: {found['why']}"}
