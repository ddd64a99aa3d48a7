"""`tally check`: every short history of a workflow, with the shortest counter-examples."""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape

from tallystick.cli import sources
from tallystick.cli.verb import NO, OK, Done, Options, Verb, arg, opt
from tallystick.errors import Rejected

DEPTH: Final = 12
STATES: Final = 100_000
EXAMPLE: Final = {"law": str, "detail": str, "moves": [str]}
CHECKED: Final = {
    "workflow": str,
    "nodes": int,
    "edges": int,
    "moves": int,
    "complete": bool,
    "cut": [str],
    "seconds": float,
    "violations": [EXAMPLE],
}


def run(_call: Any, options: Options) -> Done:
    """Check one workflow of a file, or all of them; 1 when a law is broken."""
    from tallystick.testing import told  # noqa: PLC0415  # loads kernel, node and kit
    from tallystick.testing.search import check_workflow  # noqa: PLC0415  # as above

    place, wanted = _named(options["workflow"])
    files = sources.python_files(place)
    reports, rows = [], []
    for name in wanted or _all(files):
        began = perf_counter()
        report = check_workflow(
            files,
            name,
            depth=options["depth"],
            states_max=options["max_states"],
            any_timer=options["timers"] == "any",
        )
        reports.append(report)
        rows.append(_row(report, perf_counter() - began, _module(place, report)))
    text = told.written(reports, _module(place, reports[0])) if reports else ""
    if options["write"] and text:
        Path(options["write"]).write_text(text, encoding="utf-8")
    broken = any(report.examples for report in reports)
    value = {"ok": not broken, "checked": rows, "tests": text}
    return Done(value, NO if broken else OK)


def _named(given: str) -> tuple[Path, list[str]]:
    """`PATH:NAME`, or `PATH` for all of its workflows, or `NAME` for a file in this folder.

    A name is that of the function or class, or the whole one: `shop/orders@1`.
    """
    path, _, name = given.partition(":")
    place = Path(path)
    if place.exists() and (place.is_dir() or place.suffix == ".py"):
        return place, [name] if name else []
    if not name:
        short = given.rpartition("/")[2].partition("@")[0]
        begins = re.compile(rf"^(?:async def|def|class) {re.escape(short)}\b", re.MULTILINE)
        for beside in sorted(Path().glob("*.py")):
            if begins.search(beside.read_text("utf-8")):
                return beside, [given]
    raise Rejected(
        f"{given} names no workflow",
        code="check.not_found",
        where={"path": given},
        hint="give app.py:orders, a file, or the name of a workflow of a file in this folder",
    )


def _all(files: dict[str, bytes]) -> list[str]:
    from tallystick.modules.source import app_of  # noqa: PLC0415  # runs the author's code

    return list(app_of(files).workflows)


def _module(place: Path, report: Any) -> str:
    return str(report.subject.spec.code.__module__) if place.is_dir() else place.stem


def _row(report: Any, seconds: float, module: str) -> dict[str, Any]:
    from tallystick.testing.told import Names, told  # noqa: PLC0415  # as above

    return {
        "workflow": report.subject.spec.name,
        "nodes": report.nodes,
        "edges": report.edges,
        "moves": report.moves,
        "complete": report.complete,
        "cut": list(report.cut),
        "seconds": round(seconds, 3),
        "violations": [
            {
                "law": example.law,
                "detail": example.detail,
                "moves": told(report.subject, example.moves, Names(module)),
            }
            for example in report.examples
        ],
    }


def report(console: Console, value: Any) -> None:
    """One line for each workflow, then the counter-examples as a test file."""
    for each in value["checked"]:
        what = f"{each['nodes']} nodes, {each['edges']} edges, {each['moves']} moves"
        whole = "complete: true" if each["complete"] else f"cut at {', '.join(each['cut'])}"
        console.print(escape(f"{each['workflow']}: {what}, {whole}"), soft_wrap=True)
        for broken in each["violations"]:
            console.print(escape(f"  {broken['law']}: {broken['detail']}"), soft_wrap=True)
    if value["tests"]:
        console.print(escape(value["tests"]), soft_wrap=True)


VERBS = (
    Verb(
        "check",
        "every short history of a workflow, with the shortest counter-examples",
        run,
        (
            arg("workflow"),
            opt("depth", "how many moves to look ahead", type=int, default=DEPTH),
            opt("max-states", "how many situations to keep", type=int, default=STATES),
            opt(
                "timers",
                "whether only the next timer fires, or any of them",
                type=click.Choice(("due", "any")),
                default="due",
            ),
            opt("write", "write the counter-examples to this test file"),
        ),
        {"ok": bool, "checked": [CHECKED], "tests": str},
        report,
    ),
)
