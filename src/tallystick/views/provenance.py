"""The cluster of provenance: trees, definitions, runs and artifacts, joined by hashes (F-19).

Theory of operation (08 section 11, V1, V2).
Each attempt leaves one immutable object that names all it came from and all it made.
Verifying computes every hash again from the bytes in the store: the object, the definition, both
trees down to their leaves, the manifest of inputs against the tree, the decision over its facts,
the trigger, the list of actions under the run's root, and the artifacts.
It starts at any of them and goes along the hashes to all that hangs together; the first object
that is not what its name says is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.errors import JournalCorrupt, UnknownName
from tallystick.reactions import ids, keys, runs
from tallystick.reactions.decide import trigger_fingerprint
from tallystick.reactions.document import definition_of
from tallystick.reactions.ids import H
from tallystick.reactions.tree import Tree, load, shown
from tallystick.reactions.triggers import UNNAMED
from tallystick.values import canon
from tallystick.views.reactive import Blob, Reactive

KINDS: Final[tuple[str, ...]] = (
    "provenance", "run", "definition", "tree", "manifest", "trigger", "decision", "facts",
    "artifact",
)  # fmt: skip


class Evidence(NamedTuple):
    """All that is needed to judge: the journal's own words, attempts, and the store."""

    view: Reactive
    attempts: Mapping[str, Mapping[str, Any]]
    blob: Blob


class Broken(NamedTuple):
    """The first object that is not what its name says."""

    kind: str
    id: str
    why: str


class Verified(NamedTuple):
    """What was looked at, by kind, what was pruned, and the first thing that is wrong."""

    checked: dict[str, int]
    pruned: int
    broken: Broken | None

    def shape(self) -> dict[str, Any]:
        """As commands answer it."""
        broken = None if self.broken is None else self.broken._asdict()
        return {
            "ok": broken is None,
            "checked": self.checked,
            "pruned": self.pruned,
            "first_broken": broken,
        }


def names_of(
    run_id: str, made: Mapping[str, Any], told: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Every object that an attempt's provenance names, as (kind, id)."""
    yield "provenance", told["provenance_id"]
    yield "run", run_id
    yield "definition", made["definition_hash"]
    for tree in (made["tree_before"], made["tree_after"]):
        if tree is not None:
            yield "tree", tree
    yield "manifest", made["inputs"]
    yield "trigger", made["trigger_id"]
    if made["decision_id"] is not None:
        yield "decision", made["decision_id"]
    for action in made["actions"]:
        for _, content in action["outputs"]:
            if content is not None:
                yield "artifact", content


def component(evidence: Evidence, start: str | None) -> list[str]:
    """The runs that hang together with what `start` names; all of them without a start."""
    objects = {
        run_id: [ident for _, ident in names_of(run_id, noted.value["object"], noted.value)]
        for run_id, noted in evidence.view.provenance.items()
    }
    if start is None:
        return list(objects)
    label = {row["label"]: run_id for run_id, row in evidence.attempts.items()}
    wanted = label.get(start, start)
    reached = {wanted}
    found: dict[str, None] = {}
    grown = True
    while grown:
        grown = False
        for run_id, names in objects.items():
            if run_id not in found and not reached.isdisjoint(names):
                found[run_id] = None
                reached.update(names)
                grown = True
    if not found:
        raise UnknownName(
            f"no provenance names {start}",
            code="provenance.unknown",
            where={"id": start},
            hint="a run, its label, a definition, tree, trigger, decision or content id",
        )
    return list(found)


def verify(evidence: Evidence, start: str | None = None) -> Verified:
    """Compute every hash of a component again; stops at the first that is wrong."""
    made = _Verifying(evidence)
    for run_id in component(evidence, start):
        made.run(run_id)
        if made.broken is not None:
            break
    return Verified(made.checked, made.pruned, made.broken)


class _Verifying:
    """One pass; each object is looked at once."""

    def __init__(self, evidence: Evidence) -> None:
        self._view, self._attempts, self._blob = evidence
        self.checked: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.pruned = 0
        self.broken: Broken | None = None
        self._seen: dict[tuple[str, str], Any] = {}

    def run(self, run_id: str) -> None:
        """Judge all that one attempt's provenance names."""
        noted = self._view.provenance[run_id]
        told, made = noted.value, noted.value["object"]
        looks: dict[str, Callable[[str], str | None]] = {
            "provenance": lambda ident: self._provenance(ident, made),
            "run": lambda ident: self._attempt(ident, made),
            "definition": self._definition,
            "tree": self._tree,
            "manifest": lambda ident: self._manifest(ident, made),
            "trigger": self._trigger,
            "decision": self._decision,
            "artifact": self._artifact,
        }
        for kind, ident in names_of(run_id, made, told):
            if (kind, ident) in self._seen:
                continue
            self._seen[(kind, ident)] = None
            why = looks[kind](ident)
            if why is not None:
                self.broken = self.broken or Broken(kind, ident, why)
                return
            self.checked[kind] += 1

    # ---- the objects ------------------------------------------------------------------------

    def _provenance(self, ident: str, made: Mapping[str, Any]) -> str | None:
        fields = {key: value for key, value in made.items() if key != "$type"}
        return _unless(ids.text(H("provenance@1", **fields)) == ident, "its hash is another")

    def _attempt(self, ident: str, made: Mapping[str, Any]) -> str | None:
        attempt = self._attempts.get(ident)
        if attempt is None:
            return "the world has no such run"
        if keys.run_id(made["run_key"], attempt["attempt"]) != ident:
            return "the id is not that of its key and number"
        if runs.run_root(attempt) != made["run_root"] or attempt["run_root"] != made["run_root"]:
            return "the list of its actions has another root"
        trigger = self._view.triggers.get(made["trigger_id"])
        definition = self._bytes(made["definition_hash"])
        if trigger is None or definition is None:
            return None  # told where they are looked at themselves
        loaded = definition_of(definition)
        key = keys.run_key(
            loaded.hash,
            trigger_fingerprint(loaded, trigger.value),
            trigger.value["target"]["target_id"],
        )
        return _unless(key == made["run_key"], "its key is not that of definition and trigger")

    def _definition(self, ident: str) -> str | None:
        return _unless(self._bytes(ident) is not None, "its bytes are missing or others")

    def _tree(self, ident: str) -> str | None:
        try:
            self._loaded(ident)
        except JournalCorrupt as why:
            return f"{why.message}: {why.where.get('tree', '')}"
        return None

    def _loaded(self, ident: str) -> Tree:
        key = ("loaded", ident)
        if key not in self._seen:
            self._seen[key] = load(ids.raw(ident), self._blob)
        found: Tree = self._seen[key]
        return found

    def _manifest(self, ident: str, made: Mapping[str, Any]) -> str | None:
        """The inputs are those of the tree after the observation."""
        data = self._bytes(ident)
        if data is None:
            return "its bytes are missing or others"
        try:
            tree = self._loaded(made["tree_after"])
        except JournalCorrupt:
            return None  # told where the tree itself is looked at
        held = {shown(path): node for path, node in tree.items()}
        pages = [self._bytes(name) for name in canon.decode(data)["files"]]
        if any(page is None for page in pages):
            return "a page of its files is missing or another"
        rows = [row for page in pages if page is not None for row in canon.decode(page)["rows"]]
        for path, content in rows:
            node = held.get(path)
            if node is None or (node.id is None) != (content is None):
                return f"{path} is not in its tree"
            if node.id is not None and ids.text(node.id) != content:
                return f"{path} has another content in its tree"
        return None

    def _trigger(self, ident: str) -> str | None:
        noted = self._view.triggers.get(ident)
        if noted is None:
            return "the journal does not hold it"
        named = {key: value for key, value in noted.value.items() if key not in UNNAMED}
        return _unless(ids.text(H("trigger@1", **named)) == ident, "its hash is another")

    def _decision(self, ident: str) -> str | None:
        noted = self._view.decisions.get(ident)
        if noted is None:
            return "the journal does not hold it"
        rest = {key: value for key, value in noted.value.items() if key != "decision_id"}
        if ids.text(H("decision@1", **rest)) != ident:
            return "its hash is another"
        if self._bytes(rest["evaluated_facts"]) is None:
            self.broken = Broken("facts", rest["evaluated_facts"], "missing or others")
            return "its facts are missing or others"
        self.checked["facts"] += 1
        return None

    def _artifact(self, ident: str) -> str | None:
        """Bytes that were pruned leave a hash that can still be compared (V5)."""
        data = self._blob(ids.raw(ident))
        if data is None:
            self.pruned += 1
            return None
        return _unless(ids.text(sha256(data).digest()) == ident, "its bytes are others")

    def _bytes(self, ident: str) -> bytes | None:
        data = self._blob(ids.raw(ident))
        return data if data is not None and ids.text(sha256(data).digest()) == ident else None


def _unless(good: bool, why: str) -> str | None:
    return None if good else why
