"""`tally dev` and the reactions of its world: edits are taken up, or told why not.

The watcher loads what changed; here it is said, and what somebody has trusted before stays trusted
under its new hash, so that no edit needs a second command.
A directory that nobody has trusted yet is only told of: cloning is not executing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tallystick.errors import TallyError
from tallystick.model.bundle import Bundle
from tallystick.node.definitions_found import Loading
from tallystick.node.lookout import Lookout
from tallystick.node.node import Node
from tallystick.reactions.bundle import reacting
from tallystick.views.workspaces import workspace_body

LOOK_S: Final = 0.2
FOLDER: Final = ".reactions"
Say = Callable[..., None]


def with_reactions(path: Path, bundle: Bundle) -> Bundle:
    """The bundle of an app; one that has reactions beside it gets a world that reacts."""
    beside = path if path.is_dir() else path.parent
    return reacting(bundle) if (beside / FOLDER).is_dir() else bundle


async def follow(node: Node, world_name: str, say: Say) -> None:
    """Until cancelled: take up every change of the reactions of a world."""
    world = node.resolve(world_name)
    told: dict[str, Loading] = {}
    while True:
        mine = [each for each in node.watching.lookouts.values() if each.kept.world == world]
        for lookout in mine:
            lookout.keep_old()
            loading, name = lookout.loading, lookout.kept.workspace_id
            if lookout.loaded and told.get(name) is not loading:
                told[name] = loading
                try:
                    await _take(node, lookout, say)
                except TallyError as why:
                    say(why.code, f"{why.code}: {why.message}")
        await asyncio.sleep(LOOK_S)


async def _take(node: Node, lookout: Lookout, say: Say) -> None:
    """Tell of what was loaded, and trust it if somebody trusted what was there before."""
    kept, loading = lookout.kept, lookout.loading
    for file, finding in loading.findings:
        place = f"{file}:{finding.line}:{finding.col}"
        end = "; it goes on as it was" if file in loading.by_file else ""
        say(finding.code, f"{place}: {finding.code} {finding.message}{end}")
    body = await node.look(kept.world, lambda world: workspace_body(world, kept.workspace_id))
    names = ", ".join(each.name for each in loading.definitions) or "none"
    if not body["pins"] and not body["follow"]:
        hint = f"run: tally workspace trust {kept.folder}"
        say("reactions.untrusted", f"reactions of {kept.name}: {names}; not trusted, {hint}")
        return
    new = sorted(set(loading.hashes) - set(body["pins"]))
    if new:
        await node.watching.pin(kept, new, "dev")
    say("reactions.loaded", f"reactions of {kept.name}: {names}")
