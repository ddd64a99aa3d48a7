"""How an execution ends, or waits: quiescence, status, final step, limits (07 section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.playbooks import joins
from tallystick.playbooks.moments import length_ns, moment_ns
from tallystick.playbooks.net import FAILURES_MAX, ROOT

if TYPE_CHECKING:  # a play uses these functions
    from tallystick.playbooks.play import Asked, Play

_SECOND: Final = 10**9
_OPEN: Final = ("running", "waiting")


def judge(play: Play) -> None:
    """Decide in this very tick whether the execution is over, waits, or goes on."""
    state = play.state
    if state.pop("halt", None) and state["phase"] in _OPEN:
        stop(play, None, "fail_fast")
    if state.pop("over", None) and state["phase"] in _OPEN:
        stop(play, "P403", f"over {play.plan.spec['limits']['max_tokens']} tokens")
    if state["ready"] or state["runs"]:
        if state["phase"] == "waiting":
            state["phase"] = "running"
        return
    pending = [t for t in state["tokens"].values() if t["at"] == "pending"]
    if state["phase"] == "final":
        _finish(play)
    elif pending:
        if state["phase"] != "waiting":
            state["phase"] = "waiting"
            play.net.note("playbook.waiting", tokens=len(pending))
    elif joins.starve(play):
        play.drain()
    else:
        _final(play)


def _final(play: Play) -> None:
    """Nothing is left: run the final step once, or finish."""
    state = play.state
    state["status"] = status_of(play)
    play.net.note("playbook.quiescent", status=state["status"])
    step = play.plan.spec["final_step"]
    state["phase"] = "final"
    if step is None or step in state["counts"]["step_runs"]:
        _finish(play)
        return
    args = play.values.keep(_summary(play))
    play.net.token(step, ROOT, {"from": None, "run": None, "args": args, "final": True})
    play.drain()


def _summary(play: Play) -> dict[str, Any]:
    state = play.state
    counts = state["counts"]
    branches = {
        "ended": counts["ended"],
        "no_match": counts["no_match"],
        "failed": counts["branch_failed"],
        "discarded": counts["discarded"],
    }
    return {
        "execution_id": state["execution"],
        "status": state["status"],
        "counts": {
            "step_runs": sum(counts["step_runs"].values()),
            "failed": counts["failed"],
            "handled": counts["handled"],
            "iterations": sum(counts["iterations"].values()),
            "branches": branches,
        },
        "results": {k: row["v"].get("h", row["run"]) for k, row in state["results"].items()},
        "failures": state["failures"][:FAILURES_MAX],
    }


def status_of(play: Play) -> str:
    """The status by the policy of the playbook."""
    counts, policy = play.state["counts"], play.plan.spec["status"]
    unhandled = counts["failed"] - counts["handled"]
    if play.state["doom"] is not None:
        return "failed"
    if policy == "fail_on_branch_error":
        return "failed" if counts["branch_failed"] else "success"
    if policy == "allow_partial":
        if not unhandled and not counts["soft"]:
            return "success"
        return "partial" if counts["ended"] + counts["no_match"] else "failed"
    return "failed" if unhandled else "success"


def _finish(play: Play) -> None:
    state = play.state
    final = state["final"]
    if final is not None and final["error"] is not None:
        partial = play.plan.spec["on_final_failure"] == "partial"
        state["status"] = "partial" if partial and state["status"] != "failed" else "failed"
    state["phase"] = "done"
    play.net.note("playbook.finished", status=state["status"])


def stop(play: Play, code: str | None, message: str) -> None:
    """Discard every token and cancel every run; the final step is still to come."""
    if code is not None:
        play.net.doom(code, message)
    for name in list(play.state["tokens"]):
        play.net.drop(name, "discarded", message)
    for name in list(play.state["runs"]):
        play.cancel_run(name)
    play.state["ready"] = []


def cancel(play: Play, reason: str, principal: str) -> None:
    """End the execution now: no final step."""
    stop(play, None, "cancelled")
    play.state["status"] = "cancelled"
    play.state["phase"] = "done"
    play.net.note("playbook.finished", status="cancelled", reason=reason, by=principal)


# ---- what a unit waits for ------------------------------------------------------------------


def request_of(play: Play, ref: str, wish: dict[str, Any]) -> list[Asked]:
    """The effects that end a wait; none for a signal without a limit.

    P126 when what the playbook computed is no length and no moment.
    """
    from tallystick.playbooks.play import ASK, TIMER, Asked  # noqa: PLC0415 - it uses this room

    if wish["kind"] == "human":
        return [Asked(ASK, _ask(play, wish["inputs"]), ref)]
    due = due_ns(play, wish)
    if due is None:
        return []
    return [Asked(TIMER, {"deliver_at_ns": due, "key": None}, ref)]


def due_ns(play: Play, wish: dict[str, Any]) -> int | None:
    """When a wait is over."""
    if wish["kind"] == "pause":
        return play.now_ns + int(wish["seconds"] * _SECOND)
    if wish["kind"] == "signal":
        return None if wish["timeout"] is None else play.now_ns + length_ns(wish["timeout"])
    if wish.get("until") is not None:
        return moment_ns(wish["until"])
    return play.now_ns + length_ns(wish.get("for"))


def _ask(play: Play, inputs: dict[str, Any]) -> dict[str, Any]:
    expires = inputs.get("timeout")
    to = inputs.get("assignees")
    return {
        "title": str(inputs["prompt"])[:200],
        "body": str(inputs["prompt"]),
        "choices": inputs.get("choices"),
        "form": inputs.get("form"),
        "to": to if isinstance(to, list) else None if to is None else [str(to)],
        "default": None,
        "expires_at_ns": None if expires is None else play.now_ns + length_ns(expires),
    }
