"""`tally gov`: a change from the proposal to the switch, by commands alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.shape import misfit
from tallystick.cli.table import VERBS
from tests.cli.runs import Ran, tally
from tests.governance.apps import SOLD, TILL, app, source

SHAPES = {verb.words: verb.shape for verb in VERBS}


class Folder:
    """A node's folder, and commands that answer in JSON of their shape."""

    def __init__(self, base: Path) -> None:
        self.base = base
        for number in (1, 2, 3):
            (base / f"v{number}").mkdir()
            (base / f"v{number}" / "app.py").write_bytes(source(number))

    def version(self, number: int) -> str:
        return str(self.base / f"v{number}" / "app.py")

    def ran(self, *words: str, code: int = 0) -> Ran:
        done = tally(*words, "--json", "--data", str(self.base / ".tally"))
        assert done.code == code, (words, done)
        return done

    def value(self, *words: str, code: int = 0) -> Any:
        found = self.ran(*words, code=code).value
        known = next((w for w in (" ".join(words[:2]), words[0]) if w in SHAPES), None)
        assert known is not None
        shapes = SHAPES[known]
        every = shapes if isinstance(shapes, tuple) else (shapes,)
        assert any(misfit(shape, found) is None for shape in every), (words, found)
        return found


# tidy: one story, told in order.
@pytest.mark.clause("X-19", "K-45")
def test_a_change_by_commands(tmp_path: Path) -> None:
    """AG-16, ND-28: propose, ls, show, shadow, approve, apply, stale, rebase, reject: the shapes
    and exit codes of each; a refusal is 1 with its code.
    """
    here = Folder(tmp_path)
    here.value("world", "create", "main", "--bundle", here.version(1))
    here.value("send", SOLD, '{"till": "a", "cents": 5}')
    made = here.value("gov", "propose", "--bundle", here.version(2), "--description", "twice")
    ident = made["proposal"]
    assert [row["name"] for row in made["summary"]["changed"]] == ["till/code@1"]
    other = here.value("gov", "propose", "--bundle", here.version(3))["proposal"]
    early = here.ran("gov", "approve", ident, code=1)
    assert early.problem["code"] == "gov.needs_shadow"
    report = here.value("gov", "shadow", ident)
    assert report["complete"]
    assert here.value("gov", "shadow", ident, "--strict", code=1)["report"]["divergences"]
    newest = here.value("gov", "show", ident)["report_hash"]
    here.value("gov", "approve", ident, "--report-hash", newest, "--comment", "fine")
    assert here.value("gov", "prove", ident)["verdicts"]["diverges"] == 0
    assert here.value("gov", "apply", ident)["status"] == "applied"
    listed = here.value("gov", "ls")["items"]
    assert [row["state"] for row in listed] == ["applied", "stale"]
    assert here.ran("gov", "apply", ident, code=1).problem["code"] == "gov.wrong_state"
    why = here.ran("gov", "propose", "--rebase", other, code=1).problem
    assert (why["code"], why["where"]["op"]) == ("gov.pre_hash_mismatch", 0)
    here.value("gov", "reject", other, "--comment", "too late")
    assert here.value("gov", "pins")["count"] == 0
    here.value("send", SOLD, '{"till": "a", "cents": 5}')
    assert here.value("cell", "show", TILL, "a")["state"]["cents"] == 15
    assert here.ran("gov", "propose", code=2).problem["code"] == "request.usage"


@pytest.mark.clause("X-19", "X-20")
def test_a_patch_and_the_active_bundle(tmp_path: Path) -> None:
    """AG-27: `bundle check --against active` names what is not additive; a patch document is a
    proposal too.
    """
    here = Folder(tmp_path)
    here.value("world", "create", "main", "--bundle", here.version(1))
    text = source(1).replace(b"cents: Nat\n\n\nclass Printed", b"cents: str\n\n\nclass Printed")
    (tmp_path / "odd.py").write_bytes(text)
    found = here.ran("bundle", "check", str(tmp_path / "odd.py"), "--against", "active", code=2)
    assert "schema.not_additive" in [row["code"] for row in found.value["findings"]]
    words = ("--against", "active", "--authority", "structural")
    good = here.ran("bundle", "check", here.version(2), *words)
    assert good.value["errors"] == 0
    active = here.value("world", "show", "main")["manifest"]
    operation = {"section": "limits", "pre_hash": _empty(), "value": {"effects_max": 3}}
    patch = {"version": "2", "base_manifest_hash": active, "patches": [{"set_section": operation}]}
    (tmp_path / "patch.json").write_text(json.dumps(patch), encoding="utf-8")
    made = here.value("gov", "propose", str(tmp_path / "patch.json"))
    assert made["summary"]["sections"] == ["limits"]


def _empty() -> str:
    from tallystick.values import canon

    return str(canon.hash({}))


@pytest.mark.clause("K-29", "X-24")
def test_revoking_and_explaining(tmp_path: Path) -> None:
    """AG-05: `gov revoke` says no at once; `explain policy` says so of a made-up request."""
    here = Folder(tmp_path)
    here.value("world", "create", "main", "--bundle", here.version(1))
    asked = ("explain", "policy", "--effect", "till/Print@1", "--workflow", TILL)
    params = ("--params", '{"cents": 5}', "--key", "a")
    assert here.value(*asked, *params)["decision"] == "allow"
    grant = app().manifest["authority"]["grants"][0]["name"]
    here.value("gov", "revoke", grant, "--reason", "misused", "--cancel-open")
    said = here.value(*asked, *params)
    assert (said["decision"], said["code"]) == ("deny", "cap.revoked")
    assert here.value("world", "show", "main", "--flows")["queued"] == 0
