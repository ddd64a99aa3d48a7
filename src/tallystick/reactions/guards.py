"""The guards: what keeps a reaction from feeding itself (08 section 7, G1 to G8).

Each is one pure function, called by name through this module, and a test of each scenario fails
when its guard is switched off.
Guards over changes of a disk stand first (stage 3), then those over a trigger (stage 4), then those
over the past of a lane (stages 5 and 6), then those over a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick.reactions import scopes
from tallystick.reactions.document import Definition
from tallystick.reactions.stamps import Stamp, Stamps

COPY_BYTES_MIN: Final = 64  # below that, every empty file would be a copy of some output
CAUSE_MAX: Final = 256
MS: Final = 1_000_000
Place = tuple[str, bytes]  # workspace_id and path


# ---- changes --------------------------------------------------------------------------------


def is_self(definition: Definition, place: Place, after: str | None, stamps: Stamps) -> bool:
    """G2: these are the bytes that this reaction announced for this path, in any version of it."""
    return any(
        stamp.reaction == definition.name
        and stamp.post_id == after
        and stamp.is_live
        and stamp.world is None
        for stamp in stamps.by_path(*place)
    )


def is_own_output(definition: Definition, place: Place, stamps: Stamps) -> bool:
    """G3: a path that this reaction has written is its output, never its input, until adopted."""
    if definition["overlap"] == "in_place":
        return False
    return any(
        stamp.reaction == definition.name and stamp.is_live and stamp.world is None
        for stamp in stamps.by_path(*place)
    )


def takes_generated(entry: Mapping[str, Any]) -> bool:
    """G3: outputs of others start nothing unless the trigger asks for them."""
    return bool(entry["generated"])


def is_ignored(definition: Definition, target: bytes, path: bytes) -> str | None:
    """The rule of the definition that keeps a path from being watched, or None."""
    return scopes.means(scopes.below(definition, definition["ignore"], target), path)


def writer_of(place: Place, after: str | None, stamps: Stamps) -> Stamp | None:
    """G1: the stamp that explains the bytes at a path, or None: somebody else wrote them."""
    return stamps.matching(*place, after)


def copied_from(
    definition: Definition, place: Place, held: tuple[str | None, int], stamps: Stamps
) -> Stamp | None:
    """G5: the stamp of an output whose bytes came to another path, the deepest first."""
    content, size = held
    if content is None or size < COPY_BYTES_MIN or not definition["copy_lineage"]:
        return None
    found = [s for s in stamps.by_content(content) if (s.workspace_id, s.path) != place]
    return max(found, key=lambda stamp: stamp.depth, default=None)


# ---- triggers -------------------------------------------------------------------------------


def is_untrusted(trigger: Mapping[str, Any]) -> bool:
    """Cloning is not executing: a definition runs once somebody has pinned its hash."""
    return not trigger["trusted"]


def is_too_deep(definition: Definition, trigger: Mapping[str, Any]) -> bool:
    """G5: the chain of reactions that led here is longer than this one takes part in."""
    return bool(trigger["depth"] > definition["max_depth"])


def is_reentry(definition: Definition, trigger: Mapping[str, Any]) -> bool:
    """G5: this reaction is its own cause, and no round of re-entry is left."""
    return bool(trigger["lineage"].count(definition.name) > definition["reentry"])


def is_cross_world(trigger: Mapping[str, Any]) -> bool:
    """The bytes were written by a reaction of another world."""
    return bool(trigger["cause"].startswith("foreign:"))


# ---- lanes ----------------------------------------------------------------------------------


def is_cooling(lane: Mapping[str, Any], trigger: Mapping[str, Any], now_ns: int) -> bool:
    """G6: the window after the last trigger that passed is open; commands are never cooled."""
    return bool(trigger["kind"] != "command" and lane["cool_until_ns"] > now_ns)


def is_tripped(definition: Definition, lane: Mapping[str, Any], now_ns: int) -> bool:
    """G8: as many runs, or tokens, as the window allows have been; it looks at no cause."""
    breaker = definition["breaker"]
    since = now_ns - breaker["window_ms"] * MS
    runs = [at for at in lane["starts"] if at > since]
    tokens = sum(count for at, count in lane["spent"] if at > since)
    return len(runs) >= breaker["runs"] or (
        breaker["tokens"] is not None and tokens >= breaker["tokens"]
    )


def is_known(attempts: Sequence[Mapping[str, Any]]) -> bool:
    """R8: this run key was attempted before, so it resolves to what came of it."""
    return len(attempts) > 0


def is_over_cause(counts: Mapping[str, int], root_trigger_id: str) -> bool:
    """G5: one outside change has caused as many runs as it may."""
    return counts.get(root_trigger_id, 0) >= CAUSE_MAX


# ---- runs -----------------------------------------------------------------------------------


def is_fan_out(definition: Definition) -> bool:
    """More actions than one run may have; asked before the first of them."""
    return bool(len(definition["actions"]) > definition["limits"]["actions"])


def out_of_scope(definition: Definition, target: bytes, path: str) -> str | None:
    """G3: why a run may not write a path, or None."""
    return scopes.unwritable(definition, target, path)


def is_terminal(run: Mapping[str, Any]) -> bool:
    """G7: the attempt has ended, and takes no action, stamp or output any more."""
    return bool(run["state"] in ("complete", "failed", "aborted"))


def is_done(done: Mapping[str, Any], name: str, action_key: str) -> bool:
    """G4: this very action, by its key, has a receipt already."""
    return name in done and bool(done[name]["action_key"] == action_key)


# ---- causes ---------------------------------------------------------------------------------


def derived(stamps: Sequence[Stamp]) -> tuple[int, list[str], Stamp]:
    """G5: depth, lineage and writer of what some outputs cause; the deepest writer leads."""
    led = sorted(stamps, key=lambda stamp: (-stamp.depth, stamp.reaction, stamp.run_id))
    first = led[0]
    lineage = [*first.lineage, first.reaction]
    for stamp in led[1:]:
        lineage += [name for name in (*stamp.lineage, stamp.reaction) if name not in lineage]
    return first.depth + 1, lineage, first
