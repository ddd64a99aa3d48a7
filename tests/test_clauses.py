"""Every clause cited exists, and the written table of conformance is what the tests say (ST-08)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import clauses

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "conformance.md"


def test_clauses_have_unique_ids_and_text() -> None:
    """ST-08: the checklist itself is sound: ids are unique, each says what must be shown."""
    listed = [line for line in clauses.CLAUSES.read_text("utf-8").splitlines() if "- {id:" in line]
    loaded = clauses.load_clauses()
    assert len(loaded) == len(listed) > 100
    assert all(loaded.values())


def test_every_cited_clause_exists(request: pytest.FixtureRequest) -> None:
    """ST-08: a citation of a clause or an invariant that nobody wrote down is a mistake."""
    known = {*clauses.load_clauses(), *clauses.DECISIONS}
    cited = request.config.stash[clauses.CITED]
    assert {id_: sorted(cited[id_]) for id_ in sorted(cited) if id_ not in known} == {}
    invariants = request.config.stash[clauses.INVARIANTS_CITED]
    assert sorted(set(invariants) - clauses.INVARIANTS) == []


def test_uncovered_clauses_are_printed(request: pytest.FixtureRequest) -> None:
    """ST-08: what no test cites is printed (pytest -rP shows it), and counted in the table."""
    cited = request.config.stash[clauses.CITED]
    uncovered = [id_ for id_ in clauses.load_clauses() if id_ not in cited]
    print(f"{len(uncovered)} clauses without a test: {' '.join(uncovered)}")
    if clauses.is_whole(request.config) and not request.config.getoption("--conformance"):
        text = TABLE.read_text("utf-8")
        written = clauses.read_table(text)
        assert [id_ for id_, tests in written.items() if not tests] == uncovered


def test_table_is_up_to_date(request: pytest.FixtureRequest) -> None:
    """ST-08: the committed table names the tests that cite each clause, no more and no fewer."""
    config = request.config
    if config.getoption("--conformance"):
        pytest.skip("this run writes the table")
    written = clauses.read_table(TABLE.read_text("utf-8"))
    assert list(written) == list(clauses.load_clauses())
    cited = config.stash[clauses.CITED]
    found = clauses.differences(written, cited, whole=clauses.is_whole(config))
    assert found == [], "run: make conformance"
    # The states are of the run that wrote it; one with failing tests is not to be kept.
    assert "| failing |" not in TABLE.read_text("utf-8"), "mend the tests, run: make conformance"


def test_state_needs_a_passing_test_and_no_failing_one() -> None:
    """ST-08 control: skipped, failing and absent tests do not show a clause."""
    assert clauses.state_of({}) == "open"
    assert clauses.state_of({"t": {"skipped"}}) == "open"
    assert clauses.state_of({"t": {"passed"}, "u": {"skipped"}}) == "shown"
    assert clauses.state_of({"t": {"passed"}, "u": {"passed", "failed"}}) == "failing"


def test_table_reads_back_and_differences_bite() -> None:
    """ST-08 control: a test that is new, gone or under another clause is a difference."""
    known = {"K-01": "a | b", "K-02": "c"}
    text = clauses.render(known, {"K-01": {"t.py::one": {"passed"}, "t.py::two": {"passed"}}})
    table = clauses.read_table(text)
    assert table == {"K-01": {"t.py::one", "t.py::two"}, "K-02": set()}
    assert "| K-01 | a &#124; b | shown |" in text
    assert "1 shown, 0 failing, 1 open" in text
    assert clauses.differences(table, table, whole=True) == []
    moved = {"K-01": {"t.py::one"}, "K-02": {"t.py::two"}}
    assert clauses.differences(table, moved, whole=True) == [
        "K-01: no such test: t.py::two",
        "K-02: not in the table: t.py::two",
    ]
    assert clauses.differences(table, {"K-01": {"t.py::one"}}, whole=False) == []


PLANTED = """
import pytest

@pytest.mark.clause("K-01")
@pytest.mark.parametrize("n", [1, 2])
def test_cases(n):
    assert n

@pytest.mark.clause("K-02")
def test_fails():
    assert False

@pytest.mark.clause("K-03")
def test_skipped():
    pytest.skip("not here")
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_outcomes_are_gathered_from_all_processes(
    pytester: pytest.Pytester, processes: str
) -> None:
    """ST-08: with one process or several, the table holds every clause's tests and state."""
    pytester.makeini("[pytest]\ntestpaths = .\nmarkers =\n  clause(*ids): x\n  invariant(*ids): x")
    for name in ("clauses.py", "clauses.yaml"):
        (pytester.path / name).write_bytes((clauses.CLAUSES.parent / name).read_bytes())
    pytester.makepyfile(test_planted=PLANTED)
    result = pytester.runpytest_subprocess(
        "-p", "clauses", "-n", processes, "--conformance", "out.md"
    )
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    text = (pytester.path / "out.md").read_text("utf-8")
    assert clauses.read_table(text)["K-01"] == {"test_planted.py::test_cases"}
    states = [line.split(" | ")[2] for line in text.splitlines() if line.startswith("| K-0")][:4]
    assert states == ["shown", "failing", "open", "open"]
