"""Why a reaction fired or did not: one trigger, or the last word about a path (D13; 08 s. 6).

Every stage that ends a trigger leaves a record; this puts them in their order, with the decision
and its reasons, and with what became of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tallystick.errors import UnknownName
from tallystick.views.reactive import Noted, Reactive
from tallystick.views.waiting import Reason
from tallystick.views.why import cause_of

PREFIX_MIN: Final = 6
NEWEST: Final = 5
Runs = Mapping[str, Mapping[str, Any]]

# What each outcome of the stage table means, in a sentence.
SAID: Final[Mapping[str, str]] = {
    "no_change": "the bytes are what they were",
    "stale_observation": "the look was overtaken by another one, and taken again",
    "ignored": "a rule keeps this path from being watched",
    "self_suppressed": "the reaction itself wrote these bytes",
    "denied": "it was refused",
    "deferred": "it waits, and is judged again later",
    "cooled_down": "the same state was met within the cooldown",
    "deduped": "something newer took its place",
    "attached": "a run for this very state is under way already",
    "accepted": "it became a run",
    "reused": "this state was run before, and its outputs still stand",
    "replayed": "this state was run before, and its outputs were written again",
    "reused_failure": "this state was run before and failed; only a retry tries it again",
    "aborted": "it was given up",
    "late_append_rejected": "a result came after the run had ended",
    "alert": "the breaker opened",
    "complete": "the run is complete",
    "failed": "the run failed",
}
_CODES: Final[Mapping[str, str]] = {
    "generated_output": "a reaction wrote it, and this one does not say generated: true",
    "own_output": "it is an output of this reaction",
    "untrusted": "nobody trusts this definition yet: tally workspace trust",
    "hop_limit": "the chain of reactions is longer than max_depth",
    "reentry": "the reaction is in its own lineage already",
    "cross_world": "another world wrote it",
    "breaker_open": "too many runs in the window: tally reaction reset",
    "fact_missing": "a rule asks for a fact that is not there",
    "defer_expired": "its deadline has passed",
    "disabled": "the reaction is switched off: tally reaction enable",
    "definition_changed": "its definition was replaced meanwhile",
    "queue_full": "too much waits already",
    "cause_cap": "one edit has caused as many runs as it may",
    "coalesced": "only the newest of several is kept while a run is active",
    "conflict": "somebody edited the output; theirs stays, the proposal is in the store",
    "input_moved": "an input changed while the run was under way; it comes again",
    "vcs_busy": "version control is at work",
    "missing": "too many files vanished at once: tally workspace confirm",
}


def trigger_named(view: Reactive, runs: Runs, name: str) -> str:
    """The trigger of an id, of its first digits, or of a run; UnknownName when there is none."""
    if name in view.triggers:
        return name
    for run_id, row in runs.items():
        if name in (run_id, row["label"]):
            return str(row["trigger_id"])
    digits = name.removeprefix("sha256:")
    found = [key for key in view.triggers if key.removeprefix("sha256:").startswith(digits)]
    if len(digits) >= PREFIX_MIN and len(found) == 1:
        return found[0]
    raise UnknownName(
        f"no trigger {name}",
        code="trigger.unknown",
        where={"trigger": name},
        hint="tally reaction triggers lists them; a run may be named by its label too",
    )


def explain_trigger(view: Reactive, runs: Runs, name: str) -> dict[str, Any]:
    """Why a trigger came to be, and what became of it."""
    key = trigger_named(view, runs, name)
    noted = view.triggers[key]
    trigger = noted.value
    reasons = [_fired(noted), *_stages(view, runs, key)]
    return {
        "subject": {
            "trigger": key,
            "reaction": trigger["reaction"],
            "target": trigger["target"]["path"],
        },
        "status": _status(view, runs, key),
        "reasons": [reason.shown() for reason in reasons],
        "as_of": view.seq,
    }


def _fired(noted: Noted) -> Reason:
    trigger, told = noted.value, cause_of(noted)
    names = ("kind", "cause", "actor", "depth", "lineage", "input_digest", "flags")
    text = f"{told['text']} ({told['cause']}, depth {trigger['depth']})"
    detail = {"seq": noted.seq, **{name: trigger[name] for name in names}}
    return Reason("fired", text, detail)


def _stages(view: Reactive, runs: Runs, key: str) -> Iterator[Reason]:
    """Decisions, outcomes and runs of a trigger, in the order of the journal."""
    rows: list[tuple[int, Reason]] = []
    for noted in view.decisions.values():
        if noted.value["trigger_id"] == key:
            said = "; ".join(_reason(row) for row in noted.value["reasons"])
            detail = {"decision_id": noted.value["decision_id"], "seq": noted.seq}
            rows.append((noted.seq, Reason(f"decision.{noted.value['outcome']}", said, detail)))
    ended = [noted for noted in view.outcomes.values() if noted.value["trigger_id"] == key]
    rows += [(noted.seq, outcome_reason(noted)) for noted in ended]
    settled = [noted for noted in view.settled.values() if noted.value["trigger_id"] == key]
    rows += [(noted.seq, _ran(noted, runs)) for noted in settled]
    for _, reason in sorted(rows, key=lambda row: row[0]):
        yield reason


def _reason(row: Mapping[str, Any]) -> str:
    return f"{row['code']}: {row['detail']}" if row["detail"] else str(row["code"])


def outcome_reason(noted: Noted) -> Reason:
    """One outcome as a reason."""
    row = noted.value
    code = row["outcome"] if row["code"] is None else f"{row['outcome']}({row['code']})"
    said = SAID.get(row["outcome"], str(row["outcome"]))
    more = _CODES.get(row["code"] or "")
    text = said if more is None else f"{said}: {more}"
    return Reason(code, text, {"seq": noted.seq, "guard": row["guard"], "paths": row["paths"]})


def _ran(noted: Noted, runs: Runs) -> Reason:
    row = noted.value
    attempt = runs.get(row["run_id"], {})
    label = attempt.get("label", row["run_id"])
    ended = SAID.get(row["outcome"], row["outcome"])
    code = row["outcome"] if row["code"] is None else f"{row['outcome']}({row['code']})"
    failed = [each for each in attempt.get("actions", ()) if each["status"] == "failed"]
    last = f", at the action {failed[-1]['name']}" if failed else ""
    more = _CODES.get(row["code"] or "")
    text = f"{label}: {ended}{last}" + ("" if more is None else f": {more}")
    detail = {"run_id": row["run_id"], "seq": noted.seq, "outputs": row["outputs"]}
    if failed:
        detail["intent"] = failed[-1]["receipt_id"]
    return Reason(f"run.{code}", text, detail)


def _status(view: Reactive, runs: Runs, key: str) -> str:
    stages = list(_stages(view, runs, key))
    return stages[-1].code if stages else "waits"


# tidy: one answer, from two lists.
def explain_path(view: Reactive, runs: Runs, place: tuple[str, str]) -> dict[str, Any]:
    """The last words about a path of a workspace, newest first: also why nothing came of it."""
    workspace_id, path = place
    rows: list[tuple[int, Reason]] = []
    for noted in view.outcomes.values():
        row = noted.value
        if (row["workspace_id"], row["trigger_id"]) == (workspace_id, None) and path in row[
            "paths"
        ]:
            reason = outcome_reason(noted)
            name = row["reaction"] or "every reaction"
            rows.append((noted.seq, reason._replace(text=f"{name}: {reason.text}")))
    for noted in view.triggers.values():
        trigger = noted.value
        if trigger["workspace_id"] == workspace_id and any(
            change["path"] == path for change in trigger["changes"]
        ):
            fired = _fired(noted)
            detail = {**fired.detail, "trigger": trigger["trigger_id"]}
            text = (
                f"{trigger['reaction']}: {fired.text}; {_status(view, runs, trigger['trigger_id'])}"
            )
            rows.append((noted.seq, Reason("fired", text, detail)))
    rows.sort(key=lambda row: row[0], reverse=True)
    if not rows:
        text = "no change of it was seen, or no reaction watches it: tally reaction check"
        rows = [(0, Reason("unseen", text, {}))]
    return {
        "subject": {"path": path, "workspace": workspace_id},
        "status": rows[0][1].code,
        "reasons": [reason.shown() for _, reason in rows[:NEWEST]],
        "more": max(len(rows) - NEWEST, 0),
        "as_of": view.seq,
    }
