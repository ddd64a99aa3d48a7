"""Checks of names: gates, reads before writes, clashes, parallel writes (P308, P317 to P320)."""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.playbooks.facts import Facts, Place, text_reads
from tallystick.playbooks.finding import Remark
from tallystick.playbooks.graph import Dominators, reached, without
from tallystick.playbooks.reading import SCOPES


def remarks(facts: Facts) -> Iterator[Remark]:
    """What is odd about the names that steps read and write."""
    ways = Dominators(facts.arrows, facts.plan.spec["entry_step"])
    yield from _parallel(facts)
    for name in facts.plan.steps:
        yield from _gate(facts, name)
        yield from _clashes(facts, name)
        yield from _unwritten(facts, ways, name)


def _gate(facts: Facts, name: str) -> Iterator[Remark]:
    """P308: a gate without `else`, or one that only a patch opens."""
    step = facts.plan.steps[name]
    if "admit" not in step:
        return
    if all("when" in rule for rule in step["admit"]):
        message = f"the gate of {name} has no else: what no rule names is denied"
        yield Remark("P308", "info", name, message, "add else: {then: {allow: false}}")
        return
    paths = [place.path for place in facts.reads[name] if place.where == "gate"]
    keys = [path[1] for path in paths if path[0] == "ctx" and len(path) > 1]
    if keys and len(keys) == len(paths) and not any(key in facts.writers for key in keys):
        told = ", ".join(f"ctx.{key}" for key in dict.fromkeys(keys))
        message = f"only a patch of {told} opens the gate of {name}: no step writes it"
        yield Remark("P308", "info", name, message, "nothing to do where a person approves")


def _clashes(facts: Facts, name: str) -> Iterator[Remark]:
    """P320: a bare name that more than one scope has."""
    for word in _bare(facts, name):
        homes = facts.homes(name, word)
        if len(homes) > 1:
            message = f"{word} of {name} stands in {' and '.join(homes)}; {homes[0]} decides"
            yield Remark("P320", "warning", name, message, f"write {homes[0]}.{word}")


def _bare(facts: Facts, name: str) -> dict[str, None]:
    found = (place.path[0] for place in facts.reads[name])
    return dict.fromkeys(word for word in found if word not in SCOPES)


def _unwritten(facts: Facts, ways: Dominators, name: str) -> Iterator[Remark]:
    """P317: a name that is not surely there when it is read."""
    told: dict[str, None] = {}
    for place in facts.reads[name]:
        # A gate waits for its names, and who writes `default` knows that they may be missing.
        if place.tolerated or place.where == "gate":
            continue
        why = _lacking(facts, ways, name, place)
        shown = ".".join(place.path[:2] if place.path[0] == "ctx" else place.path[:1])
        if why and shown not in told:
            told[shown] = None
            hint = f"write {shown} on every way to {name}, or use default()"
            yield Remark("P317", "warning", name, f"{name} reads {shown}, {why}", hint)


def _lacking(facts: Facts, ways: Dominators, name: str, place: Place) -> str:
    """Why a path may lead nowhere; empty when it surely does not."""
    head = place.path[0]
    if head == "ctx" and len(place.path) > 1:
        return _not_before(facts, ways, name, place.path[1], place.where)
    if head in SCOPES:
        return ""
    homes = facts.homes(name, head)
    if not homes:
        return "which nobody writes"
    if homes[0] == "steps" and head != name:
        return "" if ways.dominates(head, name) else "which may not have run before"
    if homes[0] == "ctx":
        return _not_before(facts, ways, name, head, place.where)
    return ""


def _not_before(facts: Facts, ways: Dominators, name: str, key: str, where: str) -> str:
    """Why a key of ctx may not be written yet; a step's own writes count behind its tools."""
    writers = facts.writers.get(key, [])
    if not writers:
        return "which no step writes"
    own = name in writers and where in ("arc", "set_ctx", "policy", "tool")
    if own or any(ways.dominates(writer, name) for writer in writers):
        return ""
    return "which not every way there has written"


def _parallel(facts: Facts) -> Iterator[Remark]:
    """P318: one key of ctx written side by side: by branches of a split, or by iterations."""
    plan = facts.plan
    joins = [name for name, step in plan.steps.items() if "join" in step]
    plain = without(facts.arrows, joins)
    told: dict[tuple[str, str], None] = {}
    for name, step in plan.steps.items():
        if step.get("loop", {}).get("mode") == "parallel":
            yield from _iterations(facts, name)
        arcs = [arc["step"] for arc in plan.arcs(name) if arc["step"] in plain]
        if step.get("next", {}).get("mode") != "inclusive":
            continue
        branches = [reached(plain, [end]) for end in arcs]
        for key, writers in facts.writers.items():
            beside = _beside(branches, writers)
            if beside is not None and (beside[1], key) not in told:
                told[beside[1], key] = None
                message = f"{beside[0]} and {beside[1]} write ctx.{key} side by side"
                hint = "the last write wins: write two keys, or join first"
                yield Remark("P318", "warning", beside[1], message, hint)


def _beside(branches: list[dict[str, None]], writers: list[str]) -> tuple[str, str] | None:
    """Two writers of which each is in a branch where the other is not."""
    for i, one in enumerate(writers):
        for other in writers[i + 1 :]:
            mine = [n for n, branch in enumerate(branches) if one in branch and other not in branch]
            theirs = any(other in branch and one not in branch for branch in branches)
            if mine and theirs:
                return one, other
    return None


def _iterations(facts: Facts, name: str) -> Iterator[Remark]:
    """A task of a parallel loop that writes what hangs on its item."""
    iterator = facts.plan.steps[name]["loop"]["iterator"]
    for task in facts.plan.steps[name]["tool"]:
        for rule in task.get("rules") or ():
            for key, value in rule.get("set_ctx", {}).items():
                heads = {each.path[0] for each in text_reads(value)}
                if heads & {"iter", "loop_index", iterator, "outcome", "_prev"}:
                    message = f"iterations of {name} write ctx.{key} side by side"
                    hint = "return it as the result: loop results stand in order"
                    yield Remark("P318", "warning", name, message, hint)
