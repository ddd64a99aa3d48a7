"""AT-36 loop-guards (RL-11, I29 to I33): reactions feed neither themselves nor each other."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tallystick.reactions.bundle import reaction_bundle
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place

SETTINGS = """
[watch]
settle_ms = 30
max_settle_ms = 200
rescan_s = 1
"""
# Rewrites its own input, so its own write is an event of its own trigger.
FORMAT = """
reaction: format
on: [{files: ["notes/*.txt"]}]
writes: {files: ["notes/*.txt"]}
overlap: in_place
cooldown: 0ms
breaker: {runs: 10000, window: 1m}
actions:
  - {name: in, file.read: {paths: ["notes/a.txt"]}}
  - {name: out, file.write: {path: notes/a.txt, content: "{{ actions.in.text | trim }}"}}
"""
# Each answers the other's output, longer each time: without a guard it never ends.
ANSWER = """
reaction: NAME
on: [{files: [SOURCE], generated: true}]
writes: {files: [SINK]}
on_user_edit: overwrite
cycles: allow
cooldown: 0ms
actions:
  - {name: in, file.read: {paths: [SOURCE]}}
  - {name: out, file.write: {path: SINK, content: "{{ actions.in.text }}NAME "}}
"""
FOLLOW = """
reaction: follow
on: [{files: [hot.txt]}]
writes: {files: [copy.txt]}
cooldown: 0ms
breaker: {runs: 10000, window: 1m}
actions:
  - {name: in, file.read: {paths: [hot.txt]}}
  - {name: out, file.write: {path: copy.txt, content: "{{ actions.in.text }}"}}
"""
PAIR = {"ping": ("x.txt", "y.txt"), "pong": ("y.txt", "x.txt")}
CHAIN = {f"w{i}": (f"f{i}.txt", f"f{i + 1}.txt") for i in range(1, 8)}


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Edit what a reaction rewrites, start two that answer each other, and touch one file often."""
    world = reaction_bundle().to_zip()
    folder = bench.fresh("tree")
    _lay(folder)
    with Place(bench.fresh("node"), SETTINGS, bench.planted, world=world) as place:
        place.start()
        _watch(place, folder)
        contents = _edit(place, folder, bench["edits"])
        for path in ("x.txt", "f1.txt"):
            (folder / path).write_text("go ", "utf-8")
        _calm(place)
        _touch(place, folder, bench)
        calm = _calm(place)
        runs = _items(place, "runs")
        triggers = _items(place, "triggers")
        deepest = _deepest(place, triggers)
        replayed = place.tally("--json", "replay", "--verify").returncode
    by_name = {name: [r for r in runs if r["reaction"] == name] for name in _NAMES}
    return {
        "calm": calm,
        "contents": contents,
        "runs": {name: len(rows) for name, rows in by_name.items()},
        "deepest": deepest,
        "suppressed": sum(row["outcome"] == "self_suppressed" for row in triggers),
        "denied": sorted({row["code"] for row in triggers if row["outcome"] == "denied"}),
        "touches": bench["touches"],
        "last_seen": (folder / "copy.txt").read_text("utf-8")
        == (folder / "hot.txt").read_text("utf-8"),
        "formatted": (folder / "notes" / "a.txt").read_text("utf-8"),
        "states": sorted({row["state"] for row in runs}),
        "replay_exit": replayed,
    }


_NAMES = ("format", "follow", *PAIR, *CHAIN)


def _deepest(place: Place, triggers: list[dict[str, Any]]) -> int:
    """How many runs of others led to an accepted trigger, at most."""
    accepted = {row["trigger_id"] for row in triggers if row["outcome"] == "accepted"}
    depths = [
        trigger["depth"]
        for row in place.rows("event")
        if row["record"]["schema"] == "sys/Observed@1"
        for trigger in row["record"]["value"]["triggers"]
        if trigger["trigger_id"] in accepted
    ]
    return max(depths, default=0)


def _lay(folder: Path) -> None:
    """The tree before anybody looks at it."""
    (folder / ".reactions").mkdir()
    (folder / "notes").mkdir()
    texts = {"format": FORMAT, "follow": FOLLOW}
    for name, (source, sink) in {**PAIR, **CHAIN}.items():
        text = ANSWER.replace("NAME", name).replace("SOURCE", source).replace("SINK", sink)
        texts[name] = text
    for name, text in texts.items():
        (folder / ".reactions" / f"{name}.yaml").write_text(text, "utf-8")
    for path in ("notes/a.txt", "x.txt", "f1.txt", "hot.txt"):
        (folder / path).write_text("", "utf-8")


def _watch(place: Place, folder: Path) -> None:
    status, said = place.ask("POST", "/v1/worlds/main/workspaces", {"path": str(folder)})
    assert status == 201, said
    _scan(place)
    status, said = place.ask(
        "POST", f"/v1/worlds/main/workspaces/{said['workspace_id']}/trust", {"follow": True}
    )
    assert status in (200, 202), said
    _calm(place)


def _scan(place: Place) -> None:
    """Let all that is on disk be in the journal."""
    (row,) = place.get("/workspaces")["items"]
    assert not row.get("findings"), row["findings"]
    path = f"/v1/worlds/main/workspaces/{row['workspace_id']}/scan"
    status, said = place.ask("POST", path, {})
    assert status in (200, 202), said


def _calm(place: Place, wait_s: float = 60.0) -> bool:
    """Look until three looks find nothing new and nothing under way; False when it never comes."""
    until, seen, same = time.monotonic() + wait_s, -1, 0
    while time.monotonic() < until:
        _scan(place)
        runs = _items(place, "runs")
        now = place.root()["seq"]
        ended = all(row["state"] not in ("running", "queued", "pending") for row in runs)
        same = same + 1 if now == seen and ended else 0
        if same >= 3:
            return True
        seen = now
        time.sleep(0.05)
    return False


def _items(place: Place, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = place.get(f"/{kind}?limit=1000")["items"]
    return rows


def _edit(place: Place, folder: Path, edits: int) -> int:
    """A person edits what the reaction has just written, again and again."""
    for number in range(edits):
        (folder / "notes" / "a.txt").write_text(f"  content {number}  ", "utf-8")
        _calm(place)
    return edits


def _touch(place: Place, folder: Path, bench: Bench) -> None:
    """Write one file often, and kill the node in the middle."""
    for number in range(bench["touches"]):
        (folder / "hot.txt").write_text(f"{number}\n", "utf-8")
        if number == bench["touches"] // 2:
            place.kill()
            place.start()


def faults(found: dict[str, Any]) -> list[str]:
    """A run too many or too few, a chain that is too deep, or a last content nobody saw."""
    wrong = []
    runs = found["runs"]
    if runs["format"] != found["contents"] or found["suppressed"] < found["contents"]:
        wrong.append(f"{runs['format']} runs for {found['contents']} contents")
    if (runs["ping"], runs["pong"]) != (1, 1) or "reentry" not in found["denied"]:
        wrong.append(f"two that answer each other ran {runs['ping']} and {runs['pong']} times")
    chain = [runs[name] for name in CHAIN]
    if (
        chain != [1, 1, 1, 1, 1, 0, 0]
        or found["deepest"] != 4
        or "hop_limit" not in found["denied"]
    ):
        wrong.append(f"a chain of depth {found['deepest']} ran {chain}")
    if not 1 <= runs["follow"] <= found["touches"] // 2 or not found["last_seen"]:
        wrong.append("the last content was not seen, or every touch was a run")
    if not found["calm"] or found["formatted"] != found["formatted"].strip():
        wrong.append("it does not come to rest")
    return [*wrong, "the journal does not replay"] if found["replay_exit"] else wrong


CASE = Case(
    number="at-36",
    name="loop-guards",
    rows="RL-11 I29 I30 I31 I32 I33",
    run=run,
    faults=faults,
    planted="self_event_by_path",
    small={"edits": 2, "touches": 200},
    full={"edits": 50, "touches": 10_000},
)
