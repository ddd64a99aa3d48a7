"""Joins: where the branches of a split come together (07 section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallystick.playbooks.net import ROOT
from tallystick.playbooks.tasks import failure

if TYPE_CHECKING:  # a play uses these functions
    from tallystick.playbooks.play import Play


def arrive(play: Play, name: str, token: dict[str, Any]) -> None:
    """A token waits at a join, or is absorbed when the join has fired for its group."""
    group = _group(play, token)
    row = play.state["groups"][group]["joins"].setdefault(
        token["step"], {"arrived": [], "fired": False}
    )
    if row["fired"]:
        play.net.drop(name, "absorbed", "the join has fired")
        return
    row["arrived"].append(name)


def _group(play: Play, token: Mapping[str, Any]) -> str:
    """The group that a join collects: the one of its split `of`, or the outermost that fits."""
    step = token["step"]
    of = play.plan.steps[step]["join"].get("of")
    around = play.net.around(token["group"])
    groups = play.state["groups"]
    if of is not None:
        return next((name for name in around if groups[name]["split"] == of), ROOT)
    fitting = [name for name in around if _all_reach(play, groups[name]["split"], step)]
    if fitting:
        return fitting[-1]
    return around[0] if around else ROOT


def _all_reach(play: Play, split: str, step: str) -> bool:
    return all(step in play.plan.reach(arc["step"]) for arc in play.plan.arcs(split))


def fire(play: Play) -> bool:
    """Fire the joins that are complete; False when none was."""
    for group, step, join in _waited(play):
        if _complete(play, group, step, join):
            _fire(play, group, step, join)
            return True
    return False


def _waited(play: Play) -> list[tuple[str, str, dict[str, Any]]]:
    """The joins at which tokens wait: by group, then by the oldest token that waits.

    The order is said here, because a map that was read back is in another one than a new map.
    """
    tokens = play.state["tokens"]
    found: list[tuple[int, int, str, str, dict[str, Any]]] = []
    for group, row in play.state["groups"].items():
        for step, join in row["joins"].items():
            if join["fired"]:
                continue
            join["arrived"] = [name for name in join["arrived"] if name in tokens]
            if join["arrived"]:
                oldest = min(int(name[1:]) for name in join["arrived"])
                found.append((int(group[1:]), oldest, group, step, join))
    found.sort(key=lambda each: each[:2])
    return [each[2:] for each in found]


def _complete(play: Play, group: str, step: str, join: Mapping[str, Any]) -> bool:
    rules = play.plan.steps[step]["join"]
    here = len(join["arrived"])
    everybody: bool = play.state["groups"][group]["live"] == here
    if rules["mode"] == "all":
        return everybody
    wanted = 1 if rules["mode"] == "any" else rules["n"]
    return bool(here >= wanted or everybody)


# tidy: what a join sees, takes and leaves.
def _fire(play: Play, group: str, step: str, join: dict[str, Any]) -> None:
    rules = play.plan.steps[step]["join"]
    tokens = play.state["tokens"]
    order = play.plan.order
    arrived = sorted(
        join["arrived"],
        key=lambda n: (order.get(tokens[n].get("from", ""), -1), int(n[1:])),
    )
    args: dict[str, Any] = {}
    for name in arrived:
        args.update(play.read(tokens[name].get("args")))
    join["fired"] = True
    row = play.state["groups"][group]
    seen = {
        "arrived": len(arrived),
        "ended": row["ended"],
        "failed": row["failed"],
        "tokens": [
            {"from": tokens[name].get("from"), "args": play.read(tokens[name].get("args"))}
            for name in arrived
        ],
    }
    short = lacking(rules, [tokens[name].get("from") for name in arrived])
    outer = play.state["groups"][group]["parent"] or ROOT
    if short:
        _fail(play, step, arrived, outer, failure("unknown", "P405", short))
    else:
        play.net.note("join.fired", step=step, group=group, tokens=arrived)
        play.begin(step, arrived, outer, args, seen)
    if rules["cancel_rest"]:
        cancel_group(play, group)


def lacking(rules: Mapping[str, Any], sources: list[Any]) -> str:
    """What a join that fires with tokens from these steps is short of; empty when of nothing."""
    absent = [name for name in rules.get("steps", ()) if name not in sources]
    if absent:
        return f"nothing came from {', '.join(absent)}"
    if rules["mode"] == "n_of_m" and len(sources) < rules["n"]:
        return f"{len(sources)} of {rules['n']} came"
    return ""


def _fail(play: Play, step: str, arrived: list[str], group: str, error: dict[str, Any]) -> None:
    play.net.note("join.short" if error["code"] == "P405" else "join.starved", step=step)
    play.fail_tokens(step, arrived, group, error)


def cancel_group(play: Play, group: str) -> None:
    """Discard the tokens and cancel the runs of a group."""
    for name, token in list(play.state["tokens"].items()):
        if play.net.inside(token["group"], group):
            play.net.drop(name, "discarded", "the rest of a join")
    for name, run in list(play.state["runs"].items()):
        if group != ROOT and run["group"] != ROOT and play.net.inside(run["group"], group):
            play.cancel_run(name)


def starve(play: Play) -> bool:
    """At quiescence: joins that can never fire fail (P406); False when there were none."""
    stuck = _waited(play)
    for group, step, join in stuck:
        join["fired"] = True
        outer = play.state["groups"][group]["parent"] or ROOT
        message = f"the join {step} can never fire: others of its group wait elsewhere"
        _fail(play, step, join["arrived"], outer, failure("unknown", "P406", message))
    return bool(stuck)
