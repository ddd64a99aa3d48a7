"""The playbooks that are shipped as examples: clean, and they do what they say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.playbooks.document import judge
from tests.playbooks.paged import paged
from tests.playbooks.rig import ended, playing, request
from tests.playbooks.stage import Stage

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "20-playbooks"
NAMES = sorted(path.name for path in FOLDER.glob("*.yaml"))


def text_of(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


@pytest.mark.clause("N-01")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_no_warnings(name: str) -> None:
    """PB-18: what we show as good is told nothing but notes."""
    found = judge(text_of(name))[1]
    assert [each for each in found if each.severity != "info"] == []


@pytest.mark.clause("N-20", "N-21", "N-12")
def test_import_and_etl(tmp_path: Path) -> None:
    """PB-14: every page once more than it failed; the rows of a service are in the database."""

    async def main(url: str) -> tuple[Any, Any]:
        databases = {"store": {"url": f"sqlite:{tmp_path / 'store.db'}", "mode": "write"}}
        enabled = ["timer", "http", "sql", "playbook"]
        settings = {"sql": {"dbs": databases}}
        async with playing(tmp_path, enabled=enabled, executors=settings) as (node, world):
            await request(node, world, text_of("import.yaml"), name="i", workload={"api": url})
            await request(node, world, text_of("etl.yaml"), name="e", workload={"api": url})
            return await ended(node, world, "i"), await ended(node, world, "e")

    (tmp_path / "store.db").touch()
    with paged() as service:
        imported, loaded = asyncio.run(main(service.url))
    assert (imported.status, imported.ctx["count"]) == ("success", 35), imported.net["failures"]
    assert loaded.status == "success", loaded.net["failures"]
    assert (loaded.ctx["n"], loaded.ctx["total"]) == (5, 51 + 52 + 53 + 54 + 55)


@pytest.mark.clause("N-22")
def test_fan_out_takes_two_of_three() -> None:
    """PB-16: the join fires with two branches, and the one that waits is cancelled."""
    net = Stage(text_of("fan-out.yaml")).net
    assert net["status"] == "success"
    assert {key: row["v"]["v"] for key, row in net["ctx"].items()} == {"total": 6, "largest": 3}


@pytest.mark.clause("N-08", "X-14")
@pytest.mark.parametrize(("choice", "outcome"), [("yes", "done"), ("no", "refused")])
def test_approval_by_a_person(choice: str, outcome: str) -> None:
    """PB-20: a question is an ask; the answer leads on; a small sum asks nobody."""
    small = Stage(text_of("approval.yaml"), workload={"cost": 1})
    assert small.net["ctx"]["outcome"]["v"] == {"v": "done"}
    stage = Stage(text_of("approval.yaml"))
    (ref,) = [ref for ref, asked in stage.open.items() if asked.effect == "sys/human.ask@1"]
    stage.settle(ref, {"choice": choice, "answer": None, "by": "ana", "comment": None, "at_ns": 1})
    assert stage.net["status"] == "success"
    assert stage.net["ctx"]["outcome"]["v"] == {"v": outcome}
    assert stage.net["ctx"]["answer"]["v"] == {"v": choice}
