"""The command of the simulator: `python -m tallystick.cli.simulate`.

Runs many seeds, or with `--control` shows that planted defects are found.
Exits 1 when a run fails, when a defect escapes, or when shrunk runs are too long.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from subprocess import run
from typing import Any, Final

import click

from tallystick.testing.campaign import Report, catch, control_json, run_seed
from tallystick.testing.simulate import Outcome

MEDIAN_MAX: Final = 15
SHOWN_EVERY: Final = 100
SHOWN_MAX: Final = 10
COLLECTED: Final = (10_000, 20, 20)  # as a node sets it: objects and rounds between two looks


def _commit() -> str:
    """The commit of the checkout, or `unknown` outside of one."""
    asked = ["git", "rev-parse", "HEAD"]
    try:
        found = run(asked, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def _over(jobs: int, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Each result, in order, over that many processes."""
    # What is loaded stays: the collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    with ExitStack() as stack:
        if jobs == 1:
            yield from map(work, items)
            return
        pool = stack.enter_context(get_context("fork").Pool(jobs))
        yield from pool.imap(work, items, chunksize=4)


def _run_one(given: tuple[str, int]) -> tuple[Outcome, float]:
    """One seed, and the seconds of a processor that it took, whoever else works here."""
    begun = time.process_time()
    return run_seed(*given), time.process_time() - begun


def _catch_one(given: tuple[str, str, str]) -> dict[str, Any]:
    module, name, base = given
    return catch(name, import_module(module).DEFECTS[name], base)


def _write(path: str | None, value: Any) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def _campaign(base: str, seeds: int, jobs: int, path: str | None) -> int:
    begun = time.monotonic()
    report = Report(_commit(), base)
    processor_s = 0.0
    for out, took_s in _over(jobs, _run_one, ((base, index) for index in range(seeds))):
        report.add(out)
        processor_s += took_s
        if out.invariant is not None and len(report.failures) <= SHOWN_MAX:
            click.echo(f"FAILED seed {out.seed}: {out.invariant}: {out.message}", err=True)
        if report.seeds % SHOWN_EVERY == 0:
            click.echo(f"{report.seeds} seeds, {time.monotonic() - begun:.0f} s", err=True)
    report.shrink_failures()
    made = report.json(time.monotonic() - begun)
    made["processor_seconds"] = round(processor_s, 1)
    _write(path, made)
    never = sorted(name for name, n in report.sometimes.items() if not n)
    click.echo(
        f"{report.seeds} seeds, {report.jobs} jobs, {report.crashes} crashes, "
        f"{made['sim_hours']} simulated hours, {report.detected} damages found, "
        f"{len(report.failures)} failures, {made['seconds']} s, "
        f"{made['processor_seconds']} s of a processor"
    )
    if never:
        click.echo(f"never seen: {', '.join(never)}")
    for failure in report.failures[:3]:
        click.echo(json.dumps(failure, sort_keys=True), err=True)
    return 1 if report.failures else 0


def _control(base: str, jobs: int, path: str | None, module: str) -> int:
    begun = time.monotonic()
    sys.path.insert(0, str(Path.cwd()))  # planted defects live beside the tests
    names = list(import_module(module).DEFECTS)
    rows = []
    for row in _over(jobs, _catch_one, [(module, name, base) for name in names]):
        rows.append(row)
        said = f"{row.get('invariant')}, {row.get('decisions')} decisions"
        click.echo(f"{row['defect']}: {said if row['caught'] else 'MISSED'}", err=True)
    made = control_json(rows, base, time.monotonic() - begun)
    _write(path, made)
    click.echo(
        f"{made['caught']} of {made['defects']} defects caught, "
        f"at most {made['most_seeds']} seeds, "
        f"median {made['median_decisions']} decisions, {made['seconds']} s"
    )
    good = made["caught"] == made["defects"] and made["median_decisions"] <= MEDIAN_MAX
    return 0 if good else 1


@click.command()
@click.option("--seeds", default=2000, show_default=True, help="How many seeds to run.")
@click.option("--base-seed", default=None, help="What seeds begin with; the commit by default.")
@click.option("--jobs", default=2, show_default=True, help="How many processes.")
@click.option("--report", default=None, help="Where to write the report as JSON.")
@click.option("--control", is_flag=True, help="Plant defects one by one; each must be caught.")
@click.option("--planted", default="tests.simulation.planted", help="Where the defects are.")
def main(
    *, seeds: int, base_seed: str | None, jobs: int, report: str | None, control: bool, planted: str
) -> None:
    """Run the node under drawn faults and check its invariants."""
    base = base_seed or _commit()
    if control:
        raise SystemExit(_control(base, jobs, report, planted))
    raise SystemExit(_campaign(base, seeds, jobs, report))


if __name__ == "__main__":
    main()
