"""Reactions, runs, decisions and triggers over HTTP (08 section 13)."""

from __future__ import annotations

from typing import Any

from tallystick.api.models import Operation, RunBody, SimulateBody
from tallystick.api.reads import live, page_of
from tallystick.api.request import Request, Response
from tallystick.api.workspaces import kept_of, submit
from tallystick.errors import Conflict, Rejected, UnknownName
from tallystick.kernel.world import World
from tallystick.node.inquiry import conflict_of
from tallystick.node.recomputed import replay_all, replay_decision, replay_trigger
from tallystick.node.simulated import simulate
from tallystick.node.workspaces import Kept
from tallystick.reactions import ids
from tallystick.reactions.observation import Request as Wanted
from tallystick.reactions.tree import unshown
from tallystick.views import pages, workspaces
from tallystick.views.explain_trigger import explain_path, explain_trigger


async def list_reactions(request: Request) -> Response:
    """GET W/reactions: what is loaded, trusted and enabled; and what could not be loaded."""
    rows = await live(request, workspaces.reaction_list)
    found = [
        finding.shown(file)
        for lookout in request.node.watching.lookouts.values()
        if lookout.kept.world == request.world
        for file, finding in lookout.loading.findings
    ]
    return Response(value={"items": rows, "findings": found})


async def show_reaction(request: Request) -> Response:
    """GET W/reactions/{reaction}: one with its form and its lanes."""
    name = request.named["reaction"]
    return Response(value=await live(request, lambda world: workspaces.reaction_show(world, name)))


async def _home(request: Request) -> tuple[Kept, dict[str, Any]]:
    """The workspace of a reaction, and the reaction."""
    name = request.named["reaction"]
    row = await request.node.look(
        request.world, lambda world: workspaces.reaction_show(world, name)
    )
    return kept_of(request, row["workspace_id"]), row


async def run(request: Request) -> Response:
    """POST W/reactions/{reaction}/run: a command trigger; 202 with its id."""
    body = request.read(RunBody)
    kept, row = await _home(request)
    wanted = Wanted(
        row["reaction"],
        unshown(body.path),
        args=body.args,
        key=body.key or ids.text(request.sample().entropy[:32]),
        actor={"kind": "human", "id": request.who.principal},
    )
    found = await request.node.watching.lookout(kept).command(wanted)
    if not found:
        raise Conflict(
            f"{row['reaction']} takes no command for {body.path or 'the workspace'}",
            code="reaction.no_command",
            where={"reaction": row["reaction"], "path": body.path},
            hint="it needs `on: [{command: true}]` and a target of that path",
        )
    return Response(202, {"reaction": row["reaction"], "triggers": found})


async def simulate_reaction(request: Request) -> Response:
    """POST W/reactions/{reaction}/simulate: every stage of a change; nothing is written."""
    body = request.read(SimulateBody)
    kept, row = await _home(request)
    told = await simulate(request.node, kept, row["reaction"], unshown(body.path))
    return Response(value=told)


def switch(verb: str) -> Any:
    """POST W/reactions/{reaction}/enable, disable and reset: journaled with who said so."""

    async def act(request: Request) -> Response:
        request.read(Operation)
        kept, row = await _home(request)
        lanes = [lane["target_id"] for lane in row["lanes"]] if verb == "reset" else [None]
        seq = 0
        for target_id in lanes:
            seq = await _command(request, kept, verb, (row["reaction"], None, target_id))
        return Response(202, {"reaction": row["reaction"], "verb": verb, "seq": seq})

    return act


async def _command(
    request: Request, kept: Kept, verb: str, about: tuple[str, str | None, str | None]
) -> int:
    reaction, run_key, target_id = about
    value = {
        "workspace_id": kept.workspace_id,
        "verb": verb,
        "reaction": reaction,
        "run_key": run_key,
        "target_id": target_id,
        "principal": request.who.principal,
    }
    return await submit(request, "sys/ReactionCommand@1", value)


# ---- runs -----------------------------------------------------------------------------------


async def list_runs(request: Request) -> Response:
    """GET W/runs: attempts, newest first."""
    wanted = request.query.get("reaction")
    page = page_of(request)

    def look(world: World) -> dict[str, Any]:
        return pages.cut(workspaces.run_list(world, wanted), page, "run_id", world.seq)

    return Response(value=await live(request, look))


async def show_run(request: Request) -> Response:
    """GET W/runs/{run}: one attempt with its actions."""
    name = request.named["run"]
    return Response(value=await live(request, lambda world: workspaces.run_show(world, name)))


def operate_run(verb: str) -> Any:
    """POST W/runs/{run}/retry and abort."""

    async def act(request: Request) -> Response:
        request.read(Operation)
        name = request.named["run"]
        row = await request.node.look(request.world, lambda world: workspaces.run_show(world, name))
        terminal = row["state"] in ("complete", "failed", "aborted")
        if terminal != (verb == "retry"):
            raise Conflict(
                f"{row['label']} is {row['state']}",
                code="run.terminal" if terminal else "run.running",
                where={"run": row["run_id"]},
            )
        kept = kept_of(request, row["workspace_id"])
        reaction = row["label"].partition("@")[0].partition("/")[0]
        seq = await _command(request, kept, verb, (reaction, row["run_key"], None))
        return Response(202, {"run": row["run_id"], "verb": verb, "seq": seq})

    return act


# ---- decisions and triggers -----------------------------------------------------------------


async def list_decisions(request: Request) -> Response:
    """GET W/decisions: what policy said, newest first."""
    view = await request.node.watching.projected.now(request.world)
    wanted = request.query.get("reaction")
    rows = []
    for noted in reversed(view.decisions.values()):
        trigger = view.triggers.get(noted.value["trigger_id"])
        name = None if trigger is None else trigger.value["reaction"]
        if wanted in (None, name):
            rows.append({"seq": noted.seq, "reaction": name, **noted.value})
    return Response(value=pages.cut(rows, page_of(request), "seq", view.seq))


async def replayed_decision(request: Request) -> Response:
    """GET W/decisions/{decision}: one with its facts, decided again (P5)."""
    return Response(
        value=await replay_decision(request.node, request.world, request.named["decision"])
    )


async def list_triggers(request: Request) -> Response:
    """GET W/triggers: how each trigger ended, newest first; silence is a record."""
    view = await request.node.watching.projected.now(request.world)
    wanted = request.query.get("reaction")
    rows = [
        {"seq": noted.seq, "at_ns": noted.at_ns, **noted.value}
        for noted in reversed(view.outcomes.values())
        if wanted in (None, noted.value["reaction"])
    ]
    return Response(value=pages.cut(rows, page_of(request), "seq", view.seq))


async def replayed_all(request: Request) -> Response:
    """POST W/triggers/replay: all that was recorded, computed again in one pass (F-04, F-07)."""
    return Response(value=await replay_all(request.node, request.world))


async def explained_trigger(request: Request) -> Response:
    """GET W/triggers/{trigger}/explain: why it fired, what each stage said, what became of it."""
    view = await request.node.watching.projected.now(request.world)
    attempts = await request.node.look(request.world, workspaces.attempts)
    told = explain_trigger(view, attempts, request.named["trigger"])
    trigger = view.triggers[told["subject"]["trigger"]].value
    kept = request.node.watching.workspaces.rows.get((request.world, trigger["workspace_id"]))
    for reason in told["reasons"]:
        intent = reason["detail"].get("intent")
        if kept is not None and intent is not None and "conflict" in reason["code"]:
            reason["detail"]["conflict"] = await conflict_of(request.node, kept, intent)
    return Response(value=told)


async def explained_path(request: Request) -> Response:
    """GET W/triggers/of: the last words about a path, also why nothing came of it."""
    kept = kept_of(request)
    if "path" not in request.query:
        raise Rejected("say which path", code="request.bad_query", where={"path": "?path"})
    view = await request.node.watching.projected.now(request.world)
    attempts = await request.node.look(request.world, workspaces.attempts)
    place = (kept.workspace_id, request.query["path"])
    return Response(value=explain_path(view, attempts, place))


async def replayed_trigger(request: Request) -> Response:
    """GET W/triggers/{trigger}: one derived again from recorded hashes, and how it ended."""
    told = await replay_trigger(request.node, request.world, request.named["trigger"])
    view = await request.node.watching.projected.now(request.world)
    ended = [
        noted.value
        for noted in view.outcomes.values()
        if noted.value["trigger_id"] == told["trigger_id"]
    ]
    if not told["trigger"]:
        raise UnknownName("no such trigger", code="trigger.unknown")
    return Response(value={**told, "outcomes": ended})
