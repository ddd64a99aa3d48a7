"""A workflow upgrades its own world by effects, and is told under the code it had."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import DiskFull
from tallystick.model import sys_definitions
from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.manifest_sources import canonical_sources
from tallystick.modules.source import bundle_of
from tallystick.workflow import governance
from tallystick.workflow.bundle import Bundle as Kit
from tallystick.workflow.effects import Effect
from tests.governance.serve import W, governed

EXAMPLE = Path(__file__).parents[2] / "examples" / "17-self-upgrade" / "app.py"
SOURCE = EXAMPLE.read_text("utf-8")
DEPLOY = "self/deploy@1"
ALL = ["propose", "approve", "apply"]


def version(number: int, *scopes: str) -> Bundle:
    """A version whose deployer has these scopes."""
    made: Bundle = bundle_of(
        {"app.py": SOURCE.replace("VERSION = 1", f"VERSION = {number}").encode()}
    )
    who = {"id": f"workflow:{DEPLOY}", "kind": "workflow", "scopes": list(scopes)}
    people = [who, {"id": "local", "kind": "human", "scopes": ALL}]
    manifest = {**made.manifest, "governance": {"principals": people}}
    definitions, whole = canonical_sources([made.definitions(), manifest])
    artifacts = {hash_: held.data for hash_, held in made.artifacts.items()}
    return make_bundle(definitions, whole, artifacts)


async def changed(served: Any, name: str, bundle: Bundle) -> dict[str, Any]:
    """Tell a cell to upgrade the world; its state when all is quiet."""
    put = await served.http.put(
        f"{W}/blobs",
        content=bundle.to_zip(),
        headers={"Content-Type": "application/octet-stream"},
    )
    value = {"name": name, "bundle": put.json()["hash"]}
    body = {"schema": "self/Change@1", "value": value}
    assert (await served.http.post(f"{W}/events", json=body)).status_code == 202
    assert await served.node.quiet(served.node.resolve("main"), 60_000)
    shown = await served.http.get(f"{W}/cells/self%2Fdeploy@1/{name}")
    found: dict[str, Any] = shown.json()["state"]
    return found


@pytest.mark.clause("X-19")
def test_a_workflow_upgrades_its_own_world(tmp_path: Path) -> None:
    """AG-22: example 17 on a node: propose, shadow, approve and apply by effects; the cell that
    asked is the one thing that is open, it is told under its old code, and the next one runs the
    new code.
    """

    async def main() -> None:
        async with governed(tmp_path, version(1, *ALL)) as served:
            state = await changed(served, "a", version(2, *ALL))
            assert state["log"] == ["1", "1", "1", "1", "1 applied 0"], state
            row = (await served.http.get(f"{W}/proposals")).json()["items"][0]
            assert (row["state"], row["author"]) == ("applied", f"workflow:{DEPLOY}")
            assert (await served.http.get(f"{W}/pins")).json()["count"] == 0
            again = await changed(served, "b", version(3, *ALL))
            assert again["log"][0] == "2", "a new cell runs the new code"
            assert again["log"][-1] == "2 applied 0"
            replay = (await served.http.post(f"{W}/replay", json={"from_seq": 0})).json()
            assert replay["ok"], replay

    asyncio.run(main())


@pytest.mark.clause("X-19", "X-24")
def test_a_workflow_has_only_its_scopes(tmp_path: Path) -> None:
    """AG-22: a workflow that may propose and not approve is told so by an error of its effect, and
    another cell that is open refuses an apply with its name.
    """

    async def main() -> None:
        async with governed(tmp_path, version(1, "propose")) as served:
            state = await changed(served, "a", version(2, *ALL))
            assert state["log"][-1] == "auth.missing_scope", state
            row = (await served.http.get(f"{W}/proposals")).json()["items"][0]
            assert row["state"] == "shadowed"

    asyncio.run(main())


@pytest.mark.clause("X-19")
def test_what_cannot_be_written_just_now_is_asked_again(tmp_path: Path) -> None:
    """06 section 8: a full disk passes, and the effect of a workflow with it."""

    async def main() -> None:
        async with governed(tmp_path, version(1, *ALL)) as served:
            governing = served.node.governing
            propose, full = governing.propose, [DiskFull("the disk is full")]

            async def sometimes(*asked: Any) -> Any:
                if full:
                    raise full.pop()
                return await propose(*asked)

            governing.propose = sometimes  # type: ignore[method-assign, assignment]  # a full disk
            state = await changed(served, "a", version(2, *ALL))
            assert state["log"][-1] == "1 applied 0", state

    asyncio.run(asyncio.wait_for(main(), 60))


def test_the_kit_has_every_effect_of_governance() -> None:
    """AG-22: what a world may be asked to do to itself is a class of the kit, under its name."""
    classes = [cls for cls in vars(governance).values() if isinstance(cls, type(Effect))]
    named = {Kit("x").name_of(cls) for cls in classes if cls is not Effect}
    effects = sys_definitions.of_kind("defeffect")
    known = {name for name in effects if name.startswith("sys/governance.")}
    assert named == known != set()
