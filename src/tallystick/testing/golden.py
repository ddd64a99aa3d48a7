"""`golden`: the journal of a scenario, kept beside the tests and compared record by record.

`NAME.txt` is the journal in words, one record a line, without hashes and chance, so that a reader
sees in a review what a change of code changes.
`NAME.tally` is the journal itself with all its blobs: whatever release runs the test later must
still give every recorded byte when it runs the old ticks again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import unified_diff
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from tallystick.journal.export import export_bundle
from tallystick.journal.imports import opened
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.replay import open_world, verify
from tallystick.modules.runners import Runners
from tallystick.views.journal import entries
from tallystick.views.shown import record_json

# Names of code and of positions: they change with every edit, and say nothing about what happened.
_HIDDEN: Final = frozenset(
    {
        "after", "ann", "before", "bundle", "digest", "effect_hash", "entropy", "event_hash",
        "from", "fuel", "grant_hash", "key_id", "module_hash", "output", "public_key", "seal",
        "size", "state_hash", "to_hash", "workflow_hash",
    }
)  # fmt: skip
_CODE: Final = frozenset({"WorldCreated", "BundleActivate", "KeyTrusted"})


def golden(world: Any, name: str, folder: str | Path, *, update: bool = False) -> None:
    """The journal of a world is the one that was kept under a name, and that one still replays.

    With `update`, or when nothing is kept yet and updating is on, it is written instead.
    """
    place = Path(folder)
    words, whole = place / f"{name}.txt", place / f"{name}.tally"
    text = "".join(f"{line}\n" for line in lines(world))
    if update:
        place.mkdir(parents=True, exist_ok=True)
        words.write_text(text, encoding="utf-8")
        out = BytesIO()
        export_bundle(world.journal, world.driver.world.id, out)
        whole.write_bytes(out.getvalue())
        return
    assert words.exists(), f"{words} does not exist: run with --tally-golden=update"
    kept = words.read_text("utf-8")
    changes = unified_diff(kept.splitlines(), text.splitlines(), "kept", "now", lineterm="", n=1)
    assert kept == text, f"{name} is another journal:\n" + "\n".join(changes)
    _assert_verified(whole)


def lines(world: Any) -> Iterator[str]:
    """Every record of a world in words; intents are called by the order of their opening."""
    names: dict[str, str] = {}
    for entry in entries(world.journal.read(world.driver.world.id)):
        shown = record_json(entry.record, None)
        kind = shown.pop("record")
        if kind in _CODE:
            yield f"{entry.seq} {kind}"
            continue
        said = _plain(shown, names)
        yield f"{entry.seq} {kind} {json.dumps(said, sort_keys=True, ensure_ascii=False)}"


def _plain(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if key not in _HIDDEN}
        return {
            key: names.setdefault(part, f"i{len(names) + 1}")
            if key in ("intent", "intent_hash")
            else _plain(part, names)
            for key, part in kept.items()
        }
    if isinstance(value, list):
        return [_plain(part, names) for part in value]
    if isinstance(value, str) and value.startswith("sha256:"):
        return names.get(value, "sha256:...")
    return value


def _assert_verified(whole: Path) -> None:
    """A kept journal gives the same bytes when every tick is run again by this release."""
    with opened(whole) as (journal, world_id):
        blobs = StagedBlobs(journal, world_id)
        again = open_world(world_id, [], blobs, Runners(blobs))
        verified = verify(again, journal.read(world_id))
        assert verified.first is None, f"{whole.name} does not replay: {verified.first}"
