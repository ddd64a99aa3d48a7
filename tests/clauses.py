"""pytest plugin: which clause is shown by which test, and whether it passed.

A test cites clauses of `tests/clauses.yaml` with `@pytest.mark.clause("K-10", ...)`, decisions of
the design in the same way, and invariants with `@pytest.mark.invariant("I3", ...)`.
`--conformance FILE` writes the table of all clauses after a run of all tests;
`--conformance-check FILE` compares that table with the marks collected, without running anything.
The marks travel with each report as a user property, so that a run on several processes is put
together by the process that sees all reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import pytest
import yaml

CLAUSES = Path(__file__).parent / "clauses.yaml"
INVARIANTS = frozenset(f"I{number}" for number in range(1, 45))
# The rows of the design cite its decisions beside the clauses.
DECISIONS = frozenset(f"D{number}" for number in range(1, 16))
CITED = pytest.StashKey[dict[str, set[str]]]()
INVARIANTS_CITED = pytest.StashKey[dict[str, set[str]]]()

HEAD = """\
# Conformance

Each clause that the product has to show, and the tests that show it.
Written by `make conformance` from a run of all tests; do not edit.
`shown`: every test that cites the clause passed, and there is at least one.
`open`: no test shows it yet.
"""


def load_clauses(path: Path = CLAUSES) -> dict[str, str]:
    """The clauses in their order: id -> what must be shown."""
    return {entry["id"]: entry["must"] for entry in yaml.safe_load(path.read_text("utf-8"))}


def test_name(nodeid: str) -> str:
    """The test without its case: parameters make one test many, and the table long."""
    return nodeid.split("[", 1)[0]


def marks_of(item: pytest.Item, name: str) -> list[str]:
    """The ids that a test cites under one marker, each once, in order."""
    return list(dict.fromkeys(str(id_) for mark in item.iter_markers(name) for id_ in mark.args))


def state_of(tests: Mapping[str, set[str]]) -> str:
    """`shown`, `failing` or `open`, from the outcomes of the tests that cite a clause."""
    outcomes = {outcome for seen in tests.values() for outcome in seen}
    if "failed" in outcomes:
        return "failing"
    # A skipped test shows nothing, and does not undo what another one shows.
    return "shown" if "passed" in outcomes else "open"


def render(clauses: Mapping[str, str], outcomes: Mapping[str, Mapping[str, set[str]]]) -> str:
    """The table as Markdown."""
    states = {id_: state_of(outcomes.get(id_, {})) for id_ in clauses}
    counts = [
        f"{list(states.values()).count(word)} {word}" for word in ("shown", "failing", "open")
    ]
    lines = [HEAD, f"{len(clauses)} clauses: {', '.join(counts)}.", ""]
    lines += ["| clause | must | state | tests |", "|---|---|---|---|"]
    for id_, must in clauses.items():
        tests = "<br>".join(f"`{name}`" for name in sorted(outcomes.get(id_, {})))
        lines.append(f"| {id_} | {must.replace('|', '&#124;')} | {states[id_]} | {tests} |")
    return "\n".join(lines) + "\n"


def read_table(text: str) -> dict[str, set[str]]:
    """What a written table says: clause -> tests."""
    table: dict[str, set[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and line.startswith("| ") and cells[0] != "clause":
            tests = cells[3].rstrip("|").strip()
            table[cells[0]] = {name.strip("`") for name in tests.split("<br>") if name}
    return table


def differences(
    table: Mapping[str, Iterable[str]], cited: Mapping[str, Iterable[str]], *, whole: bool
) -> list[str]:
    """Where a written table and the marks differ; of a part of the tests, only what is missing."""
    found = []
    for id_ in sorted({*table, *cited} - DECISIONS):
        written, collected = set(table.get(id_, ())), set(cited.get(id_, ()))
        found += [f"{id_}: not in the table: {name}" for name in sorted(collected - written)]
        if whole:
            found += [f"{id_}: no such test: {name}" for name in sorted(written - collected)]
    return found


def is_whole(config: pytest.Config) -> bool:
    """Whether this run collects all tests, so that absence means something."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("clauses")
    group.addoption("--conformance", metavar="FILE", help="write the table of clauses to FILE")
    group.addoption("--conformance-check", metavar="FILE", help="compare FILE with the marks")


class Outlook:
    """Gathers outcomes where all reports arrive, and writes or compares the table at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes: dict[str, dict[str, set[str]]] = {}
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome under each clause that the test cites."""
        if report.when != "call" and report.outcome == "passed":
            return  # a setup that went well shows nothing
        for key, ids in report.user_properties:
            if key != "clauses":
                continue
            for id_ in cast("list[str]", ids):
                tests = self.outcomes.setdefault(id_, {})
                tests.setdefault(test_name(report.nodeid), set()).add(report.outcome)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the table, or fail when the written one is not what the marks say."""
        # Without outcomes the run broke before its tests, and the table would say nothing.
        if (target := self.config.getoption("--conformance")) and self.outcomes:
            Path(target).write_text(render(load_clauses(), self.outcomes), encoding="utf-8")
        if (target := self.config.getoption("--conformance-check")) and not session.testsfailed:
            path = Path(target)
            table = read_table(path.read_text("utf-8") if path.exists() else "")
            cited = self.config.stash[CITED]
            self.found = differences(table, cited, whole=is_whole(self.config))
            if self.found:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what differs, and what to do."""
        for line in self.found:
            terminalreporter.write_line(line, red=True)
        if self.found:
            terminalreporter.write_line("run: make conformance", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Start with empty tables."""
    config.stash[CITED] = {}
    config.stash[INVARIANTS_CITED] = {}
    if config.getoption("--conformance") and not is_whole(config):
        raise pytest.UsageError("--conformance tells about all tests; name none")
    if not hasattr(config, "workerinput"):  # a worker's reports arrive at its controller
        config.pluginmanager.register(Outlook(config), "clauses-outlook")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note what a test cites, before any selection, and send it along with its reports."""
    name = test_name(item.nodeid)
    ids = marks_of(item, "clause")
    for id_ in ids:
        item.config.stash[CITED].setdefault(id_, set()).add(name)
    for id_ in marks_of(item, "invariant"):
        item.config.stash[INVARIANTS_CITED].setdefault(id_, set()).add(name)
    if ids:
        item.user_properties.append(("clauses", ids))
