"""Which executor performs which effect: what settings enable, and where routes lead."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.model.sys_definitions import of_kind
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 240))


def test_the_usual_settings_serve_every_effect_that_is_safe(tmp_path: Path) -> None:
    """04 section 8: all but shell and python, which are off until somebody says so."""

    async def main() -> set[str]:
        async with running(config(tmp_path)) as node:
            made = of_kind("defeffect").values()
            known = [(each["name"], each["impl"]["entrypoint"]) for each in made]
            return {name for name, entry in known if node.dispatch.serves(name, entry)}

    words = "http.request blob.put blob.get file.write file.delete file.read sql.query"
    words += " playbook.step governance.propose governance.shadow governance.prove"
    words += " governance.approve governance.apply"
    served = {f"sys/{word}@1" for word in f"{words} llm.generate human.ask telemetry.emit".split()}
    assert go(main()) == served


def test_a_route_leads_to_an_executor(tmp_path: Path) -> None:
    """04 section 5: `routes` binds an effect to the executor that shall perform it."""

    async def main() -> None:
        bank, other = Bank(), Bank()
        other.name = "other"
        other.effects = frozenset()
        settings = config(tmp_path, executors={"routes": {orders.CHARGE: "other"}})
        async with running(settings, bank, other) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000)
            assert await phase(node, world, "o-1") == "paid"
        assert (len(bank.asked), len(other.asked)) == (0, 1)

    go(main())


@pytest.mark.parametrize(
    ("executors", "code"),
    [
        ({"routes": {orders.CHARGE: "nobody"}}, "config.route"),
        ({"enabled": ["unheard"]}, "executor.unknown"),
        ({"enabled": ["llm"], "llm": {"providers": {"mine": {}}}}, "llm.unknown_kind"),
    ],
)
def test_settings_that_nobody_can_serve_stop_the_start(
    tmp_path: Path, executors: dict[str, Any], code: str
) -> None:
    """04 section 8: a node does not start with an executor that is not there."""

    async def main() -> None:
        async with running(config(tmp_path, executors=executors)):
            raise AssertionError("it must not start")

    with pytest.raises(TallyError) as caught:
        go(main())
    assert caught.value.code == code


NONE = [({name: {"slots": 0}}, f"{name}.slots") for name in ("http", "file", "sql", "playbook")]


@pytest.mark.parametrize(
    ("given", "key"), [*NONE, ({"timer": {"catchup_rate": 0}}, "timer.catchup_rate")]
)
def test_an_executor_that_may_do_nothing_is_refused(
    tmp_path: Path, given: dict[str, Any], key: str
) -> None:
    """04 section 8: nothing would ever be performed, or the node break; the setting is named."""
    with pytest.raises(TallyError) as caught:
        config(tmp_path, executors=given)
    assert (caught.value.code, caught.value.where) == ("config.type", {"key": f"executors.{key}"})
