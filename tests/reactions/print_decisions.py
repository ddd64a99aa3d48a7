"""Print the ids of a thousand decisions, one a line; equal on every machine (S42).

Needs the package, PyYAML and Jinja2 and nothing of a test runner, so that any interpreter runs it.
With the word `planted` one part of each decision hangs on the order of hashes: a control.
"""

from __future__ import annotations

import sys
from typing import Any

from tallystick.reactions import decide as deciding
from tallystick.reactions.decide import decide
from tallystick.reactions.document import Definition, load
from tallystick.values import canon

COUNT = 1_000
RULES = (
    '{id: size, when: "{{ facts.node.size < 900 }}", else: deny, code: too_big}',
    '{id: fresh, when: "{{ facts.frames.plan.fresh }}", else: defer, code: stale, wake: 5s}',
    '{id: meta, when: "{{ facts.frames.plan.meta.n % 11 != 0 }}", else: deny, code: eleven}',
)


def ruled(*rules: str, extra: str = "") -> str:
    """A reaction with these rules."""
    lines = "".join(f"    - {rule}\n" for rule in rules)
    return f"""
reaction: ruled
on: [{{files: [a.txt]}}, {{frame: {{type: plan}}}}]
reads: {{files: [a.txt], frames: [plan]}}
writes: {{files: [out.txt]}}
cooldown: 0ms
{extra}
policy:
  rules:
{lines}
actions: [{{name: out, file.write: {{path: out.txt, content: "{{{{ trigger.input_digest }}}}"}}}}]
"""


def stored(i: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A trigger and facts, different for each number."""
    hashed = canon.hash_of(b"%d" % i)
    trigger: dict[str, Any] = {
        "trigger_id": hashed,
        "kind": "fs.changed",
        "target": {"target_id": hashed, "path": f"src/{i}", "name": f"{i}", "kind": "directory"},
        "changes": [{"path": f"src/{i}", "change": "modified", "before": None, "after": hashed}],
        "changes_ref": None,
        "command": None,
        "input_digest": hashed,
        "flags": ["startup"] if i % 3 else [],
    }
    names = ("untrusted", "hop_limit", "reentry", "cross_world", "breaker_open", "defer_expired")
    facts: dict[str, Any] = {
        "node": {"path": f"src/{i}", "kind": "d", "node_id": hashed, "size": i},
        "frames": {"plan": {"present": i % 2 == 0, "fresh": i % 5 == 0, "meta": {"n": i}}},
        "guards": {name: i % 7 == at for at, name in enumerate(names)},
        "lane": {"mode": "coalesce", "queued": 0, "active": 0, "evaluations": 0},
        "params": {},
        "at": {"time": i, "seq": i},
    }
    return trigger, facts


def decisions(count: int = COUNT) -> list[str]:
    """The ids of many decisions: what two machines must agree on."""
    definition = load(ruled(*RULES), "r")
    return [decide(definition, *stored(i))["decision_id"] for i in range(count)]


def by_chance(definition: Definition) -> str:
    """A planted defect: the hash of a text is another one in each process."""
    return f"sha256:{hash(definition.name) & 0xFFFFFFFF:064x}"


if __name__ == "__main__":
    if "planted" in sys.argv:
        setattr(deciding, "policy_version", by_chance)  # noqa: B010 - the control
    sys.stdout.write("".join(f"{each}\n" for each in decisions()))
