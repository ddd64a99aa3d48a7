"""The reaction file: one form, one hash, every mistake with its place (RX-02, RX-04)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallystick.model.catalogue_build import sys_schemas
from tallystick.reactions.check import check
from tallystick.reactions.document import definition_of, load
from tallystick.reactions.finding import BadReaction
from tallystick.reactions.heads import head_of
from tallystick.reactions.observation import Observation, Request
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import FILE, TreeNode, make, with_changes
from tallystick.reactions.triggers import derive
from tallystick.values import canon

GOLDEN = Path(__file__).parent.parent / "golden" / "reactions" / "envelopes.json"
DOCS = """
reaction: docs-writer                      # a comment says nothing
summary: One page per source directory
target: {kind: directory, match: "src/*"}
on: [{frame: {type: docs-context}}, {command: true}, {files: ["./**/*.py"]}]
reads: {files: ["./**/*.py"], frames: [docs-context]}
writes: {files: ["design/generated/**"]}
ignore: ["**/vendor/**"]
policy:
  rules:
    - {id: fresh, when: "{{ facts.frames['docs-context'].fresh }}", else: defer, code: frame_stale}
actions:
  - name: page
    file.write:
      path: "design/generated/{{ target.name }}.md"
      content: "{{ frames['docs-context'].content }}"
  - {name: tell, telemetry.emit: {name: docs.page, value: 1, attrs: {target: "{{ target.path }}"}}}
"""


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return {key: shuffled(item, chance) for key, item in items}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


def spelled(value: Any, chance: random.Random) -> str:
    flow = chance.choice([True, False, None])
    return yaml.safe_dump(
        value, sort_keys=False, default_flow_style=flow, width=chance.choice([40, 200])
    )


@pytest.mark.clause("F-03")
def test_rx04_layout_does_not_matter() -> None:
    """RX-04: comments, order, layout and explicit defaults keep the hash."""
    wanted = load(DOCS, "docs.yaml").hash
    # PyYAML reads `on` as true: it is put back as the name that it is.
    value = {("on" if key is True else key): item for key, item in yaml.safe_load(DOCS).items()}
    for seed in range(40):
        chance = random.Random(seed)
        again = shuffled(value, chance)
        if seed % 2:
            again |= {"mode": "coalesce", "cooldown": "2s", "enabled": True, "max_depth": 4}
        text = spelled(again, chance).replace("'on':", "on:")
        assert load(text, "again").hash == wanted, text
    made = load(DOCS, "docs.yaml")
    assert definition_of(made.data).hash == canon.hash_of(made.data) == wanted


CHANGES: list[tuple[str, Any]] = [
    ("summary", "another"),
    ("target", {"kind": "directory", "match": "lib/*"}),
    ("on", [{"command": True}]),
    ("reads", {"files": ["*.py"]}),
    ("params", {"n": 1}),
    ("writes", {"files": ["elsewhere/**"]}),
    ("ignore", []),
    ("overlap", "managed"),
    ("fingerprint", "delta"),
    ("policy", {"profile": "careful"}),
    ("mode", {"queue": 7}),
    ("max_depth", 3),
    ("reentry", {"max": 2}),
    ("cycles", "allow"),
    ("cooldown", "3s"),
    ("breaker", {"runs": 3}),
    ("limits", {"actions": 10}),
    ("on_user_edit", "overwrite"),
    ("heal", True),
    ("copy_lineage", False),
    ("on_first_scan", True),
    ("retry", {"max": 1}),
    ("enabled", False),
    ("owners", ["ana"]),
    ("tags", ["t"]),
    ("actions", [{"name": "a", "telemetry.emit": {"name": "n"}}]),
]


@pytest.mark.clause("F-03")
def test_rx04_every_meaning_moves_the_hash() -> None:
    """RX-04: each field alone makes another definition, and so do a prompt's bytes."""
    value = {("on" if key is True else key): item for key, item in yaml.safe_load(DOCS).items()}
    found = {load(DOCS, "docs").hash}
    for field, changed in CHANGES:
        text = spelled({**value, field: changed}, random.Random(0)).replace("'on':", "on:")
        found.add(load(text, field).hash)
    assert len(found) == len(CHANGES) + 1
    asking = DOCS + "  - {name: ask, provider.call: {model: m, prompt: p.md}}\n"
    one, two = (load(asking, "p", {"p.md": body}) for body in (b"one", b"two"))
    assert one.hash != two.hash
    own = {"house": {"extends": "careful", "rules": [], "defaults": {"cooldown": "9s"}}}
    housed = load(DOCS.replace("policy:", "policy:\n  profile: house"), "h", None, own)
    assert (housed["cooldown_ms"], housed["max_depth"], housed["breaker"]["runs"]) == (9_000, 1, 5)


BAD = [
    ("reaction: Docs", "reaction.name"),
    ("colour: red", "reaction.unknown_key"),
    ("cooldown: soon", "reaction.bad_value"),
    ("max_depth: 17", "reaction.bad_value"),
    ("mode: {queue: 0}", "reaction.bad_value"),
    ("writes: {files: ['[a]']}", "reaction.bad_glob"),
    ("writes: {files: ['.tally/x']}", "reaction.state_path"),
    ("policy: {profile: bold}", "reaction.profile"),
    (
        "policy: {rules: [{id: a, when: '{{ nobody }}', else: deny, code: c}]}",
        "reaction.expression",
    ),
    ("policy: {rules: [{id: a, when: '{{ true }}'}]}", "reaction.bad_value"),
    ("actions: []", "reaction.missing"),
    ("actions: [{name: a}]", "reaction.action"),
    ("actions: [{name: a, file.write: {path: x}}]", "reaction.missing"),
    ("actions: [{name: a, provider.call: {model: m, prompt: lost}}]", "reaction.prompt"),
    ("actions: [{name: a, file.delete: {path: '{{ x }}'}}]", "reaction.expression"),
    ("on: [{files: [a], command: true}]", "reaction.bad_value"),
    ("on: [{every: 1ms}]", "reaction.bad_value"),
    ("target: {kind: planet}", "reaction.bad_value"),
    ("target: {kind: workspace, match: x}", "reaction.bad_value"),
    ("target: {kind: file, match: ./x}", "reaction.bad_glob"),
    ("target: 7", "reaction.bad_value"),
    ("on: [{files: [a], changes: [painted]}]", "reaction.bad_value"),
    ("on: [{frame: {type: A B}}]", "reaction.bad_value"),
    ("on: 7", "reaction.bad_value"),
    ("mode: {}", "reaction.bad_value"),
    ("heal: 1", "reaction.bad_value"),
    ("tags: [1]", "reaction.bad_value"),
    ("policy: {rules: [{id: a, when: 7, else: deny, code: c}]}", "reaction.expression"),
    ("policy: {rules: [{id: a, when: '{{ true }}', else: deny}]}", "reaction.bad_value"),
    ("policy: {rules: [{when: '{{ true }}', else: deny, code: c}]}", "reaction.bad_value"),
    ("actions: [{name: A, telemetry.emit: {name: n}}]", "reaction.bad_value"),
    ("actions: [{name: a, file.delete: {path: x, on_user_edit: cry}}]", "reaction.bad_value"),
    ("actions: [{name: a, telemetry.emit: {name: '{{ 1 +'}}]", "reaction.expression"),
    (
        "actions: [{name: a, telemetry.emit: {name: n}}, {name: a, telemetry.emit: {name: n}}]",
        "reaction.bad_value",
    ),
]


@pytest.mark.clause("F-03")
@pytest.mark.parametrize(("line", "code"), BAD)
def test_a_mistake_is_told_with_its_place(line: str, code: str) -> None:
    """08 section 2: what is wrong is refused with code, line, column and a hint."""
    field = line.partition(":")[0]
    base = {
        "reaction": "reaction: x",
        "on": "on: [{command: true}]",
        "actions": "actions: [{name: a, telemetry.emit: {name: n}}]",
    }
    base.pop(field, None)
    with pytest.raises(BadReaction) as refused:
        load("\n".join([*base.values(), line]), "bad.yaml")
    assert code in [each.code for each in refused.value.findings]
    assert all(each.line == len(base) + 1 and each.hint for each in refused.value.findings)
    shown = refused.value.findings[0].shown("bad.yaml")
    assert (shown["file"], shown["severity"]) == ("bad.yaml", "error")


def test_yaml_is_strict() -> None:
    """08 section 2: YAML 1.2, one document, no key twice; names are unique in a workspace."""
    for text, code in (("a: 1\na: 2", "reaction.duplicate_key"), ("a: [", "reaction.yaml")):
        with pytest.raises(BadReaction) as refused:
            load(text, "bad")
        assert refused.value.findings[0].code == code
    one = load(DOCS, "one")
    assert [each.code for each in check([one, one])] == ["reaction.name"]


def test_own_overlap_is_seen_below_any_target() -> None:
    """G3: `./` globs are compared as they read below the targets that a definition can have."""
    for target, wrote, meets in (
        ("{kind: workspace}", "./a", True),
        ('{kind: directory, match: "src/*"}', "src/x/a", True),
        ('{kind: directory, match: "src/*"}', "lib/a", False),
        ('{kind: file, match: "src/**"}', "src/deep/a", True),
        ('{kind: file, match: "*.py"}', "./a", True),
        ('{kind: file, match: "src/*.py"}', "lib/a", False),
    ):
        text = f"""
reaction: x
target: {target}
on: [{{files: [./a]}}]
writes: {{files: ["{wrote}"]}}
actions: [{{name: a, telemetry.emit: {{name: n}}}}]
"""
        assert bool(check([load(text, "x")])) is meets, (target, wrote)


# tidy: one observation, all of its fields.
def envelopes() -> list[dict[str, Any]]:
    """One trigger of each source, over fixed values."""
    definition = load(DOCS, "docs.yaml")
    node = TreeNode(FILE, bytes(range(32)), 4)
    before = make({b"src/tree/a.py": node})
    after = with_changes(before, {b"src/tree/a.py": node._replace(id=bytes(32))})
    hashed = "sha256:" + "ab" * 32
    told = {
        "path": "src/tree",
        "type": "docs-context",
        "frame_id": hashed,
        "content_id": hashed,
        "basis": {"node_id": None, "bare_id": None, "frames": []},
        "author": {"kind": "human", "id": "ana"},
        "meta": {},
        "depth": 0,
        "lineage": [],
        "root_trigger_id": None,
        "writer": None,
    }
    head = head_of(told, b"words")
    seen = Observation(
        world_id="6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
        workspace_id="ws-1",
        n=7,
        observed_at=1_700_000_000_000_000_000,
        before=before,
        after=after,
        definitions=[definition],
        stamps=Stamps(),
        heads={(head.path, head.type): head},
        moved=[head],
        commands=[Request("docs-writer", b"src/tree", key="k-1")],
    )
    return derive(seen).triggers


@pytest.mark.clause("F-01", "F-07")
def test_rx02_one_envelope_for_all_sources() -> None:
    """RX-02: files, a frame and a command give one schema; their golden bytes hold."""
    made = envelopes()
    assert [each["kind"] for each in made] == ["fs.changed", "context.frame", "command"]
    schema = sys_schemas()["sys/TriggerOffered@1"]
    admitted = [schema.admit(each, "native").bytes for each in made]
    assert {frozenset(each) for each in made} == {frozenset(made[0])}
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert [data.hex() for data in admitted] == golden
    assert len({each["trigger_id"] for each in made}) == 3
    assert len({each["input_digest"] for each in made}) == 1
