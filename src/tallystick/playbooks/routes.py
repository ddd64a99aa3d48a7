"""Where tokens go when a unit, a loop or a run has ended (07 sections 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tallystick.playbooks.net import PAGE
from tallystick.playbooks.render import holds, passed
from tallystick.playbooks.tasks import failure
from tallystick.playbooks.values import Kept
from tallystick.playbooks.written import EDGE
from tallystick.values import canon
from tallystick.values.expr import ExpressionFault

if TYPE_CHECKING:  # a play uses these functions
    from tallystick.playbooks.play import Play, Settled

FAN: Final = 4
INLINE_MAX: Final = 262_144  # of a loop's results together: a tick's output has its bound


def settle_unit(play: Play, name: str, i: int | None, ended: Settled) -> None:
    """A unit has ended: apply its patches, then end the run or go on with the loop."""
    run = play.state["runs"][name]
    error = ended.error
    patch = ended.frame["ctx"]
    if i is not None:
        error = _conflict(play, run, i, patch) or error
    if patch and (error is None or error["code"] != "P404"):
        play.net.set_ctx(patch, name)
    kept = ended.kept if ended.kept is not None else play.values.keep(ended.result)
    if i is None:
        tasks = {k: play.values.keep(v) for k, v in ended.frame["results"].items()}
        finish(play, name, kept if error is None else None, error, tasks)
        return
    _iteration(play, name, i, kept if error is None else None, error)


def _conflict(play: Play, run: dict[str, Any], i: int, patch: Mapping[str, Any]) -> Any:
    """Two parallel iterations may not write different values to one key (P404)."""
    if play.plan.steps[run["step"]]["loop"]["mode"] == "sequential":
        return None
    writes = run["loop"]["writes"]
    for key, value in patch.items():
        digest = canon.hash_of(canon.encode(value))
        if writes.setdefault(key, digest) != digest:
            message = f"iteration {i} writes ctx.{key} to another value than one beside it"
            return failure("unknown", "P404", message)
    return None


def _iteration(
    play: Play, name: str, i: int, kept: Kept | None, error: dict[str, Any] | None
) -> None:
    run = play.state["runs"][name]
    loop, at = run["loop"], play.net.loops[name]
    at["ok" if error is None else "failed"] += 1
    word = "done" if error is None else "failed"
    play.net.note(f"loop.iteration.{word}", run=name, iteration=i)
    if error is not None and play.plan.steps[run["step"]]["failure"] == "fail_fast":
        play.cancel_units(name)
        finish(play, name, None, {**error, "iteration": i})
        return
    at["page"].append([i, kept if error is None else {"v": {"error": error}}])
    if len(at["page"]) >= PAGE:
        rows = sorted(at["page"], key=lambda row: row[0])
        _turn_page(play, loop["pages"], _page(play, "rows", rows))
        at["page"] = []
    if error is not None:
        play.state["counts"]["soft"] += 1
    if at["ok"] + at["failed"] == loop["n"]:
        finish_loop(play, name)


def _turn_page(play: Play, levels: list[list[str]], page: str) -> None:
    """One more page; those of a level fold into one of the next, so that the state stays small."""
    for level in levels:
        level.append(page)
        if len(level) < FAN:
            return
        page = _page(play, "pages", level)
        level.clear()
    levels.append([page])


def _page(play: Play, what: str, rows: list[Any]) -> str:
    """A page of results, or of pages, as a blob; an edge, so that what it names is kept with it."""
    data = canon.encode({"$type": EDGE, what: rows})
    return play.values.put(data)


def _rows(play: Play, pages: list[str]) -> list[Any]:
    found: list[Any] = []
    for name in pages:
        page = play.values.blob(name)
        found += page["rows"] if "rows" in page else _rows(play, page["pages"])
    return found


def finish_loop(play: Play, name: str) -> None:
    """The last iteration has settled: `loop.done`, once."""
    loop, at = play.state["runs"][name]["loop"], play.net.loops[name]
    pages = [page for level in loop["pages"] for page in level]
    rows = sorted([*_rows(play, pages), *at["page"]], key=lambda row: row[0])
    stats = {"total": loop["n"], "success": at["ok"], "failed": at["failed"]}
    inline = sum(row[1].get("n", 0) for row in rows) <= INLINE_MAX
    result = {"results": [_item(play, row[1], inline=inline) for row in rows], "stats": stats}
    finish(play, name, play.values.keep(result), None, stats=stats)


def _item(play: Play, kept: Kept, *, inline: bool) -> Any:
    """The result of an iteration; by reference where all of them together are too large."""
    if "shell" in kept:
        return dict(kept["shell"])
    if inline or "h" not in kept:
        return play.values.read(kept)
    return {"_ref": {"kind": "result_ref", "ref": kept["h"], "bytes": kept["n"]}}


def finish(
    play: Play,
    name: str,
    kept: Kept | None,
    error: dict[str, Any] | None,
    tasks: Mapping[str, Kept] | None = None,
    *,
    stats: Mapping[str, int] | None = None,
) -> None:
    """A run has ended: its result, its `set_ctx`, its arcs."""
    state = play.state
    run = play.net.end_run(name)
    step = play.plan.steps[run["step"]]
    if error is None:
        assert kept is not None, "a run that is well has a result"
        state["results"][run["step"]] = {"run": name, "v": kept, "tasks": dict(tasks or {})}
        state["last"] = run["step"]
        play.net.changed[run["step"]] = None
        error = _set_ctx(play, run, name, stats)
    word = "step.failed" if error is not None else "loop.done" if "loop" in step else "step.done"
    told = {} if error is None else {"code": error["code"]}
    play.net.note(word, step=run["step"], run=name, **told)
    event = event_of(play, (run["step"], name), word, error, stats)
    if run.get("final"):
        state["final"] = {"run": name, "error": error}
        play.net.live(run["group"], -1)
        return
    _route(play, run, name, event, error)
    play.net.live(run["group"], -1)


def _set_ctx(play: Play, run: dict[str, Any], name: str, stats: Any) -> dict[str, Any] | None:
    """The step's own `set_ctx`, after success and before arcs; an error in it fails the run."""
    step = play.plan.steps[run["step"]]
    if "set_ctx" not in step:
        return None
    word = "loop.done" if "loop" in step else "step.done"
    try:
        event = event_of(play, (step["step"], name), word, None, stats)
        scope = play.scope(play.read(run["args"]), event=event, **play.joined(run))
        play.net.set_ctx(passed(step["set_ctx"], scope), name)
    except ExpressionFault as why:
        return failure("expression", why.code, why.message)
    return None


def event_of(
    play: Play, place: tuple[str, str], word: str, error: dict[str, Any] | None, stats: Any
) -> dict[str, Any]:
    """The event of a boundary, as arcs and gates see it; `place` is the step and the run."""
    step, run = place
    result = None if error is not None else play.steps()[step]
    made = {"name": word, "step": step, "run": run, "result": result, "error": error}
    return {**made, "stats": stats, "attempts": (error or {}).get("attempts")}


def _route(
    play: Play, run: dict[str, Any], name: str, event: dict[str, Any], error: dict[str, Any] | None
) -> None:
    step = play.plan.steps[run["step"]]
    counts = play.state["counts"]
    chosen = None
    written = False
    if "next" in step:
        chosen, written = _chosen(play, run, name, event)
    if error is not None:
        play.net.fail(run["step"], name, error, handled=written)
        if not written and play.plan.spec["fail_fast"]:
            play.state["halt"] = True
    if chosen is None and "next" in step:
        return  # the routing itself went wrong, and the execution is doomed
    if chosen:
        _emit(play, run, name, chosen, event)
    elif error is not None:
        counts["branch_failed"] += 1
        play.net.branch_over(run["group"], "failed")
    elif "next" in step and step["next"]["arcs"]:
        counts["no_match"] += 1
        play.net.branch_over(run["group"], "ended")
        if play.plan.spec["no_next_is_error"]:
            play.net.doom("P402", f"no arc of {run['step']} matched")
    else:
        counts["ended"] += 1
        play.net.branch_over(run["group"], "ended")


def _chosen(
    play: Play, run: dict[str, Any], name: str, event: dict[str, Any]
) -> tuple[list[tuple[str, Any]] | None, bool]:
    """The arcs that fire with their args, and whether a written guard matched."""
    router = play.plan.steps[run["step"]]["next"]
    scope = play.scope(play.read(run["args"]), event=event, **play.joined(run))
    fired: list[tuple[str, Any]] = []
    matched: list[int] = []
    missing: dict[str, None] = {}
    written = False
    try:
        for i, arc in enumerate(router["arcs"]):
            yes, undefined = holds(arc.get("when", True), scope)
            missing.update(dict.fromkeys(undefined))
            if not yes:
                continue
            matched.append(i)
            written = written or "when" in arc
            fired.append((arc["step"], passed(arc.get("args", {}), scope)))
            if router["mode"] == "exclusive":
                break
    except ExpressionFault as why:
        play.net.doom("P401", f"an arc of {run['step']}: {why.code} {why.message}")
        return None, False
    more = {"mode": router["mode"], "matched": matched, "undefined": list(missing)}
    play.net.note("next.evaluated", step=run["step"], run=name, **more)
    return fired, written


def _emit(
    play: Play,
    run: dict[str, Any],
    name: str,
    chosen: list[tuple[str, Any]],
    event: dict[str, Any],
) -> None:
    group = run["group"]
    router = play.plan.steps[run["step"]]["next"]
    if router["mode"] == "inclusive" and len(chosen) > 1:
        group = play.net.split(group, run["step"])
    for step, args in chosen:
        made: dict[str, Any] = {"from": run["step"], "run": name}
        if args:
            made["args"] = play.values.keep(args)
        if "event" in play.plan.gate_reads(step):
            made["event"] = play.values.keep(_flat(event))
        play.net.token(step, group, made)
    if play.state["counts"]["created"] > play.plan.spec["limits"]["max_tokens"]:
        play.state["over"] = "max_tokens"


def _flat(event: dict[str, Any]) -> dict[str, Any]:
    result = event["result"]
    return {**event, "result": dict(result) if isinstance(result, dict) else result}
