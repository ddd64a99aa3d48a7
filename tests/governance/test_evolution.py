"""Evolution of events under check: what may change behind a name, and what needs a new version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.parcels import documents
from tests.model.acme import found_in
from tests.values.test_compat import NO, YES

EDITS = [(old, new, None) for old, new in YES] + [(old, new, path) for old, new, path in NO]


def with_schema(type_: Any) -> list[dict[str, Any]]:
    """The parcel world with one more schema, which something uses."""
    edit = {"$kind": "defschema", "name": "t/Edit@1", "type": type_}
    user = {
        "$kind": "defschema",
        "name": "t/Uses@1",
        "type": {"record": {"edit": {"ref": "t/Edit@1"}}},
    }
    return [edit, user, *documents()]


def test_there_are_enough_edits() -> None:
    """AG-27: at least forty edits, of both classes."""
    assert len(EDITS) >= 40
    assert min(len(YES), len(NO)) >= 15


@pytest.mark.clause("X-20")
@pytest.mark.parametrize(("old", "new", "path"), EDITS, ids=[str(n) for n in range(len(EDITS))])
def test_edits_behind_a_name(old: Any, new: Any, path: str | None) -> None:
    """AG-27: a bundle against the active one: additive edits pass, others name the first place."""
    found = found_in(with_schema(new), with_schema(old))
    codes = {f.code: f for f in found if f.def_name == "t/Edit@1"}
    finding = codes.get("schema.not_additive")
    assert (finding is None) == (path is None)
    if finding is not None:
        assert finding.def_name == "t/Edit@1"
        assert finding.path.endswith(path or "")
        assert finding.hint
