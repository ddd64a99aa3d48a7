"""Errors are a contract: class, code, status, exit code and hint, and a page that lists them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tallystick import errors
from tallystick.errors import TallyError

ROOT = Path(__file__).parent.parent
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference"))
CLASSES: list[type[TallyError]] = REFERENCE["error_classes"]()
PAGE = ROOT / "docs" / "reference" / "errors.md"

# class: default code, HTTP status, exit code. A change here is a change for every caller.
TABLE = {
    "TallyError": ("tally.error", 500, 1),
    "Rejected": ("request.rejected", 400, 2),
    "NotCanonical": ("cbor.prefix", 422, 2),
    "SchemaMismatch": ("value.mismatch", 422, 2),
    "BadDefinition": ("def.bad_name", 422, 2),
    "UnknownName": ("name.unknown", 404, 2),
    "Forbidden": ("auth.forbidden", 403, 1),
    "TooLarge": ("ingress.too_large", 413, 2),
    "NotQuiescent": ("gov.not_quiescent", 409, 1),
    "Conflict": ("ingress.idempotency_conflict", 409, 1),
    "Fault": ("exception", 422, 1),
    "TickFault": ("exception", 422, 1),
    "LimitExceeded": ("fuel", 422, 1),
    "ReceiptFault": ("receipt.unreadable", 422, 1),
    "Unavailable": ("node.unavailable", 503, 3),
    "Busy": ("ingress.busy", 429, 3),
    "ExecutorDown": ("effect.no_executor", 503, 3),
    "LaneMissing": ("wasm.not_installed", 503, 3),
    "DiskFull": ("node.disk_full", 507, 3),
    "NotOwner": ("world.moved", 503, 3),
    "SyncFailed": ("journal.sync_failed", 503, 3),
    "Diverged": ("replay.diverged", 500, 4),
    "ReplayDiverged": ("replay.diverged", 500, 4),
    "JournalCorrupt": ("journal.corrupt", 500, 4),
    "BlobLost": ("journal.blob_lost", 503, 4),
}
# By whose fault: statuses and exit codes that a class under it may have.
FAMILIES = {
    "Rejected": ({400, 401, 403, 404, 405, 408, 409, 413, 415, 416, 421, 422, 431}, {1, 2}),
    "Fault": ({422}, {1}),
    "Unavailable": ({429, 503, 507}, {3}),
    "Diverged": ({500, 503}, {4}),
}
CODE = re.compile(r"[a-z_]+\.[a-z_]+|P\d{3}|TL\d{3}")


@pytest.mark.clause("K-24")
def test_table_of_the_tree() -> None:
    """ST-06: every class of errors.py has the code, status and exit code that callers know."""
    found = {
        cls.__name__: (cls.default_code, cls.status, cls.exit_code)
        for cls in CLASSES
        if cls.__module__ == "tallystick.errors"
    }
    assert found == TABLE


@pytest.mark.clause("K-24")
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_belongs_to_a_family_and_says_what_to_do(cls: type[TallyError]) -> None:
    """ST-06: whose fault decides the statuses and exit codes; every class has code and hint."""
    if cls is TallyError:
        return
    family = cls.__mro__[cls.__mro__.index(TallyError) - 1].__name__
    statuses, exits = FAMILIES[family]
    assert cls.status in statuses
    assert cls.exit_code in exits
    assert cls.default_hint
    assert cls.__doc__
    # Tick faults are short words, by the rule of spelling; all other codes are dotted or numbers.
    assert CODE.fullmatch(cls.default_code) or family == "Fault"


@pytest.mark.clause("K-24")
def test_an_instance_tells_where_and_what_to_do() -> None:
    """ST-06: the problem object holds code, status, sentence, place and hint."""
    error = errors.UnknownName("no workflow demo/A@1", where={"seq": 7}, hint="see tally list")
    assert error.problem() == {
        "code": "name.unknown",
        "status": 404,
        "detail": "no workflow demo/A@1",
        "where": {"seq": 7},
        "hint": "see tally list",
    }
    assert errors.Conflict("other content", code="ingress.other").code == "ingress.other"
    limit = errors.LimitExceeded("effects_max", 4, 5)
    assert (limit.code, limit.limit["got"]) == ("effects_max", 5)
    assert limit.hint == errors.LimitExceeded.default_hint


def test_control_flow_is_not_swallowed_by_users() -> None:
    """12 section 4: the tree hangs on Exception, so `except TallyError` catches all of it."""
    assert all(issubclass(cls, Exception) for cls in CLASSES)
    assert TallyError.__bases__ == (Exception,)


@pytest.mark.clause("K-24")
def test_codes_are_in_the_reference() -> None:
    """ST-06: every class and every code that the source says stands in the reference."""
    text = PAGE.read_text("utf-8")
    listed = set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))
    assert sorted({cls.__name__ for cls in CLASSES} - listed) == []
    found = set(REFERENCE["codes"]())
    assert len(found) > 100
    assert sorted(found - listed) == [], "run: make reference"


def test_codes_are_found_where_they_are_written(tmp_path: Path) -> None:
    """ST-06 control: literals, prefixed words and numbers are found; effects and points are not."""
    planted = tmp_path / "kernel" / "a.py"
    planted.parent.mkdir()
    planted.write_text(
        "def _refuse(m, code='unsupported'):\n    raise BadDefinition(m, code=f'schema.{code}')\n"
        "_refuse('x'); _refuse('x', 'bad_thing'); raise Misfit('bound')\n"
        "a = Denial('cap.planted'); b = fault('P299'); points.at('fork.recorded')\n"
        "c = 'file.read'; d = 'bundle.cbor'; e = Noted('cell.note', {})\n",
        encoding="utf-8",
    )
    module = runpy.run_path(str(ROOT / "scripts" / "reference"))
    module["codes"].__globals__["PACKAGE"] = tmp_path
    expected = ["P299", "cap.planted", "schema.bad_thing", "schema.unsupported", "value.bound"]
    assert list(module["codes"]()) == expected
