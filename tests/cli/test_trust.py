"""Whom a node trusts with code, by command: seals of bundles, and what the doctor says (AU-23)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.sources import bundle_at
from tallystick.governance.sealed import is_sealed
from tallystick.model.bundle import build_bundle, from_zip
from tallystick.node.keys import node_key
from tests.cli.runs import Ran, tally
from tests.conformance.abi_lanes import app_of
from tests.workflow.apps import HELLO


class Folder:
    """A node's folder, and commands in it."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def run(self, *words: str) -> Ran:
        return tally(*words, "--data", str(self.place / ".tally"), "--json")

    def ok(self, *words: str) -> Any:
        done = self.run(*words)
        assert done.code == 0, done.err
        return done.value


# tidy: one story, told in its order.
@pytest.mark.clause("X-24")
def test_python_from_elsewhere_is_refused_until_it_is_sealed(tmp_path: Path) -> None:
    """AU-23: where somebody has a key to propose with, unsealed Python is refused; sealed, taken.

    A seal of another key does not help, and the root of the bundle stays what it was.
    """
    here = Folder(tmp_path)
    alice, mallory = (here.ok("key", "new") for _ in range(2))
    (tmp_path / "app.py").write_text(HELLO)
    made = bundle_at(tmp_path / "app.py")
    key = f"ed25519:{alice['public_key']}"
    people = [
        {"id": "alice", "kind": "human", "scopes": ["propose"], "key": key},
        {"id": "local", "kind": "human", "scopes": ["propose"]},
    ]
    manifest = {**made.manifest, "governance": {"principals": people}}
    held = {hash_: each.data for hash_, each in made.artifacts.items()}
    governed = build_bundle([made.definitions(), manifest], held)
    (tmp_path / "first.zip").write_bytes(governed.to_zip())
    here.ok("world", "create", "main", "--bundle", str(tmp_path / "first.zip"))

    (tmp_path / "app.py").write_text(HELLO.replace("visits + 1)\n", "visits + 2)\n"))
    other = str(tmp_path / "other.zip")
    root = here.ok("bundle", "build", str(tmp_path / "app.py"), "-o", other)["bundle"]
    for key in (None, mallory["key"]):  # type: ignore[assignment]
        if key is not None:
            here.ok("bundle", "seal", other, "--key", key)
        refused = here.run("gov", "propose", "--bundle", other)
        assert refused.problem["code"] == "bundle.unsigned"
        assert refused.code == 2
        assert "tally bundle seal" in refused.problem["hint"]
    sealed = here.ok("bundle", "seal", other, "--key", alice["key"])
    assert (sealed["bundle"], sealed["seals"]) == (root, 2)
    assert here.ok("bundle", "show", other)["sealed_by"] == [mallory["key"], alice["key"]]
    assert here.ok("gov", "propose", "--bundle", other)["bundle"] == root


def test_a_seal_of_the_node_is_the_default(tmp_path: Path) -> None:
    """AU-23: without a key the node of the folder answers for the bundle; show says how it runs."""
    here = Folder(tmp_path)
    path = tmp_path / "counter.zip"
    path.write_bytes(app_of("wat").bundle.to_zip())
    here.ok("bundle", "seal", str(path))
    own = node_key(tmp_path / ".tally" / "keys").pair.public
    assert is_sealed(from_zip(path.read_bytes()), [own])
    assert [row["instances"] for row in here.ok("bundle", "show", str(path))["artifacts"]] == [
        "pooled"
    ]


def test_sources_cannot_be_sealed(tmp_path: Path) -> None:
    """AU-23: a seal is over a root, so there must be a built bundle; the hint says how."""
    (tmp_path / "app.py").write_text(HELLO)
    refused = Folder(tmp_path).run("bundle", "seal", str(tmp_path / "app.py"))
    assert refused.problem["code"] == "bundle.not_built"
    assert "tally bundle build" in refused.problem["hint"]


def test_the_doctor_says_who_is_trusted(tmp_path: Path) -> None:
    """AU-23: Python has the rights of the server, WASM without a seal runs apart: both are said."""
    done = Folder(tmp_path).run("doctor")
    said = {row["id"]: row["found"] for row in done.value["checks"]}
    assert "trusted code with the rights of the server" in said["python"]
    assert "process of its own" in said["wasm"]
