"""What readers see of reactions: why one fired, what a file is from, and proofs that are broken."""

# tidy: one desk, every question about it.
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import UnknownName
from tallystick.kernel.inputs import Submit
from tallystick.reactions import cell_workspace
from tallystick.values import canon
from tallystick.views import attest, why, workspaces
from tallystick.views.explain_trigger import explain_path, explain_trigger
from tallystick.views.provenance import Evidence, _Verifying, component, names_of, verify
from tallystick.views.reactive import Reactive
from tests.reactions.desk import WS, Desk
from tests.reactions.scenario import at_desk, planted
from tests.reactions.test_corners import edited, plain
from tests.rig import WORLD


def seen(desk: Desk, **more: Any) -> Evidence:
    """What the journal of a desk says, with its attempts and its store."""
    view = Reactive(**more)
    view.read(desk.journal.read(WORLD), desk.driver.blobs.get)
    return Evidence(view, workspaces.attempts(desk.world), desk.driver.blobs.get)


def ran(desk: Desk, words: str = "1") -> Evidence:
    edited(desk, words)
    desk.work()
    desk.settle_down()
    return seen(desk)


def changed(evidence: Evidence, run_id: str, **fields: Any) -> Evidence:
    """The same evidence with other words in the provenance of a run."""
    view = Reactive()
    view.__dict__.update(evidence.view.__dict__)
    noted = view.provenance[run_id]
    value = {**noted.value, "object": {**noted.value["object"], **fields}}
    view.provenance = {**view.provenance, run_id: noted._replace(value=value)}
    return evidence._replace(view=view)


def broken(evidence: Evidence) -> str | None:
    found = verify(evidence).broken
    return None if found is None else found.kind


# ---- why a reaction fired ---------------------------------------------------------------------


def test_a_trigger_is_explained_from_its_cause_to_its_end(tmp_path: Path) -> None:
    """D13: by its id, its first digits, its run or its label: cause, decision, outcome, run."""
    with at_desk(tmp_path / "w", plain()) as desk:
        view, runs, _ = ran(desk)
        ((run_id, row),) = runs.items()
        key = row["trigger_id"]
        names = (key, key.removeprefix("sha256:")[:12], run_id, row["label"])
        found = [explain_trigger(view, runs, name) for name in names]
        assert all(each == found[0] for each in found)
        codes = [reason["code"] for reason in found[0]["reasons"]]
        assert (codes[0], codes[1], codes[-1]) == ("fired", "decision.allow", "run.complete")
        assert "a.txt modified" in found[0]["reasons"][0]["text"]
        for name in ("sha256:ff", "nobody"):
            with pytest.raises(UnknownName) as raised:
                explain_trigger(view, runs, name)
            assert raised.value.code == "trigger.unknown"


def test_a_failed_run_names_its_action(tmp_path: Path) -> None:
    """D13: the reason of a failure leads to the action and to its receipt."""
    text = plain().replace("path: out/x", "path: elsewhere")
    with at_desk(tmp_path / "w", text) as desk:
        view, runs, _ = ran(desk)
        (row,) = runs.values()
        told = explain_trigger(view, runs, row["label"])
        assert told["status"] == "run.failed(scope_violation)"
        last = told["reasons"][-1]
        assert "at the action w" in last["text"]
        assert "intent" in last["detail"]


def test_the_last_words_about_a_path(tmp_path: Path) -> None:
    """D13: what fired, what was suppressed, and that nothing at all was seen."""
    with at_desk(tmp_path / "w", plain("ignore: ['skip*']")) as desk:
        view, runs, _ = ran(desk)
        for n in range(6):
            edited(desk, f"again {n}")
            desk.work()
        desk.write("skip.txt", "x")
        desk.settle_down()
        view = seen(desk).view
        fired = explain_path(view, runs, (WS, "a.txt"))
        assert (fired["status"], fired["more"]) == ("fired", 2)
        skipped = explain_path(view, runs, (WS, "skip.txt"))
        assert skipped["status"].startswith("ignored(")
        assert skipped["reasons"][0]["text"].startswith("plain: ")
        assert explain_path(view, runs, ("elsewhere", "a.txt"))["status"] == "unseen"


def test_a_trigger_that_waits(tmp_path: Path) -> None:
    """D13: one that no stage has said anything about yet waits."""
    with at_desk(tmp_path / "w", plain().replace("0ms", "2s")) as desk:
        ran(desk)
        edited(desk, "2")
        view, runs, _ = seen(desk)
        newest = next(reversed(view.triggers))
        assert explain_trigger(view, runs, newest)["status"] == "waits"


# ---- what a file is from ----------------------------------------------------------------------


def asked(evidence: Evidence, path: str, content: bytes | None) -> dict[str, Any]:
    ident = None if content is None else canon.hash_of(content)
    about = why.Asked(WS, path.encode(), ident)
    return why.why(evidence.view, evidence.attempts, about)


def test_what_a_file_is_from(tmp_path: Path) -> None:
    """V3: generated, edited, deleted, adopted, external or unknown; and by a command."""
    text = plain().replace('on: [{files: ["*.txt"]}]', 'on: [{files: ["*.txt"]}, {command: true}]')
    with at_desk(tmp_path / "w", text) as desk:
        evidence = ran(desk)
        page = (tmp_path / "w/out/x").read_bytes()
        made = asked(evidence, "out/x", page)
        assert (made["state"], made["because"][0]["what"]) == ("generated", "files")
        assert asked(evidence, "out/x", b"other")["state"] == "edited"
        assert asked(evidence, "out/x", None)["state"] == "deleted"
        assert asked(evidence, "a.txt", b"1")["state"] == "external"
        assert asked(evidence, "b.txt", b"1")["known"] is False
        elsewhere = why.Asked("elsewhere", b"a.txt", None)
        assert why.why(evidence.view, evidence.attempts, elsewhere)["known"] is False
        # What the projection has forgotten ends the chain, and changes nothing else.
        short = seen(desk, keep=1)
        short.view.triggers.clear()
        assert asked(short, "out/x", page)["because"] == []
        short.view.provenance.clear()
        assert asked(short, "out/x", page)["because"] == []
        desk.adopt("out/x")
        assert asked(seen(desk), "out/x", page)["state"] == "adopted"


def test_a_run_that_somebody_asked_for(tmp_path: Path) -> None:
    """V3: a command and a schedule stand as what they are, not as files."""
    text = plain().replace('on: [{files: ["*.txt"]}]', "on: [{command: true}, {every: 1h}]")
    with at_desk(tmp_path / "w", text) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.observe(due=["plain"])
        desk.work()
        evidence = seen(desk)
        page = (tmp_path / "w/out/x").read_bytes()
        assert asked(evidence, "out/x", page)["because"][0]["what"] == "schedule"
        assert evidence.view.place(WS).fired["plain"] == desk.told("Observed")[-1]["observed_at"]


# ---- proofs -----------------------------------------------------------------------------------


# tidy: one object after the other.
def test_a_proof_that_is_broken_says_where(tmp_path: Path) -> None:
    """S49, RX-15: each object that is missing, or is not what its name says, is named by kind."""
    with at_desk(tmp_path / "w", plain()) as desk:
        evidence = ran(desk)
        view, attempts, blob = evidence
        ((run_id, noted),) = view.provenance.items()
        made = noted.value["object"]
        assert verify(evidence).shape()["ok"]
        with pytest.raises(UnknownName) as raised:
            component(evidence, "sha256:none")
        assert raised.value.code == "provenance.unknown"

        assert broken(evidence._replace(attempts={})) == "run"
        renumbered = {run_id: {**attempts[run_id], "attempt": 7}}
        assert broken(evidence._replace(attempts=renumbered)) == "run"

        def without(digest: str) -> Evidence:
            lost = canon.raw_of(digest)
            return evidence._replace(blob=lambda d: None if d == lost else blob(d))

        assert broken(without(made["definition_hash"])) == "definition"
        assert broken(without(made["inputs"])) == "manifest"
        assert broken(without(made["tree_after"])) == "tree"
        ((_, content),) = [row for action in made["actions"] for row in action["outputs"]]
        pruned = verify(without(content))
        assert (pruned.broken, pruned.pruned) == (None, 1)

        for name in ("triggers", "decisions"):
            other = Reactive()
            other.__dict__.update(view.__dict__)
            setattr(other, name, {})
            assert broken(evidence._replace(view=other)) == name.removesuffix("s")


def inputs_of(evidence: Evidence, run_id: str, files: list[Any]) -> Evidence:
    """The same evidence with other rows in the manifest of a run's inputs."""
    made = evidence.view.provenance[run_id].value["object"]
    blobs: dict[bytes, bytes] = {}

    def put(value: Any) -> str:
        data = canon.encode(value)
        blobs[canon.digest_of(data)] = data
        return canon.hash_of(data)

    body = canon.decode(evidence.blob(canon.raw_of(made["inputs"])) or b"")
    name = put({**body, "files": [put({"rows": files})]})
    held = evidence.blob
    other = changed(evidence, run_id, inputs=name)
    return other._replace(blob=lambda digest: blobs.get(digest) or held(digest))


def test_inputs_are_those_of_the_tree(tmp_path: Path) -> None:
    """RX-15: an input that the tree has not, or has with other bytes, is named."""
    with at_desk(tmp_path / "w", plain()) as desk:
        evidence = ran(desk)
        (run_id,) = evidence.view.provenance
        for rows, word in (
            ([["none.txt", canon.hash_of(b"x")]], "is not in its tree"),
            ([["a.txt", canon.hash_of(b"x")]], "has another content"),
            ([["a.txt", None]], "is not in its tree"),
        ):
            other = inputs_of(evidence, run_id, rows)
            made = other.view.provenance[run_id].value["object"]
            said = _Verifying(other)._manifest(made["inputs"], made)
            assert said is not None
            assert word in said
        made = evidence.view.provenance[run_id].value["object"]
        no_tree = {**made, "tree_after": canon.hash_of(b"no tree")}
        # Told where the tree itself is looked at.
        assert _Verifying(evidence)._manifest(made["inputs"], no_tree) is None


def test_first_runs_have_less_to_name(tmp_path: Path) -> None:
    """RX-15: without a tree before and without a decision there is nothing to name for them."""
    text = plain("on_first_scan: true").replace(
        'file.write: {path: out/x, content: "{{ trigger.input_digest }}"}',
        "file.delete: {path: out/x}",
    )
    with at_desk(tmp_path / "w", text) as desk:
        desk.write("a.txt", "0")
        desk.observe()
        desk.work()
        evidence = seen(desk)
        ((run_id, noted),) = evidence.view.provenance.items()
        assert noted.value["object"]["tree_before"] is None
        assert broken(evidence) is None
        (told,) = attest.told(
            changed(evidence, run_id, decision_id=None, git_commit="c0ffee"), [run_id]
        )
        statement = attest.in_toto(told)["predicate"]
        assert [row["name"][:7] for row in statement["runDetails"]["byproducts"]] == ["journal"]
        rows = statement["buildDefinition"]["resolvedDependencies"]
        assert rows[-1] == {"name": "git", "digest": {"gitCommit": "c0ffee"}}


def test_a_deleted_output_is_no_artifact(tmp_path: Path) -> None:
    """RX-15: what a run took away has no bytes; the object that says otherwise has another name."""
    with at_desk(tmp_path / "w", plain()) as desk:
        evidence = ran(desk)
        (run_id,) = evidence.view.provenance
        made = evidence.view.provenance[run_id].value["object"]
        gone = [{**action, "outputs": [["out/x", None]]} for action in made["actions"]]
        fewer = changed(evidence, run_id, actions=gone, decision_id=None)
        assert component(fewer, None) == [run_id]
        assert "artifact" not in dict(
            names_of(run_id, fewer.view.provenance[run_id].value["object"], {"provenance_id": ""})
        )
        assert broken(fewer) == "provenance"


def test_a_circle_of_causes_ends(tmp_path: Path) -> None:
    """V3: a chain that comes back to itself is told once."""
    with at_desk(tmp_path / "w", plain()) as desk:
        evidence = ran(desk)
        (run_id,) = evidence.view.provenance
        page = (tmp_path / "w/out/x").read_bytes()
        round_ = changed(evidence, run_id, parent_run=run_id)
        assert len(asked(round_, "out/x", page)["because"]) == 1


def test_a_command_waits_until_it_was_seen(tmp_path: Path) -> None:
    """V5: what a run has asked of another reaction stands there until the next observation."""
    asking = plain().rpartition("  - ")[0] + "  - {name: q, frame.queue: {reaction: other}}\n"
    other = plain().replace("reaction: plain", "reaction: other")
    with at_desk(
        tmp_path / "w", asking, other.replace('{files: ["*.txt"]}', "{command: true}")
    ) as desk:
        edited(desk)
        desk.work()
        (noted,) = seen(desk).view.place(WS).waiting()[1]
        assert noted.value["reaction"] == "other"
        desk.settle_down()
        assert seen(desk).view.place(WS).waiting()[1] == []


def test_a_refused_request_settles_no_run(tmp_path: Path) -> None:
    """V5: a word of an end without a run is not kept among the runs."""
    with planted(cell_workspace, "QUEUE_MAX", 0), at_desk(tmp_path / "w", plain()) as desk:
        view, _, _ = ran(desk)
        assert desk.told("RunSettled")[-1]["outcome"] == "refused"
        assert view.settled == {}


# ---- lists ------------------------------------------------------------------------------------


# tidy: one list after the other.
def test_lists_of_a_world_that_reacts(tmp_path: Path) -> None:
    """08 section 13: reactions, runs and frames by name; what is not there is refused by code."""
    other = plain("enabled: false").replace("reaction: plain", "reaction: other")
    with at_desk(tmp_path / "w", plain(), other) as desk:
        ran(desk)
        world = desk.world
        listed = workspaces.reaction_list(world)
        assert [(row["reaction"], row["enabled"]) for row in listed] == [
            ("other", False),
            ("plain", True),
        ]
        assert workspaces.reaction_show(world, "plain")["lanes"][0]["breaker"] == "closed"
        (row,) = workspaces.run_list(world, "plain")
        assert workspaces.run_list(world, "other") == []
        short = row["run_id"].partition(":")[2][:8]
        assert workspaces.run_show(world, short)["label"] == row["label"]
        assert workspaces.breakers_open(world, WS) == 0
        assert workspaces.run_body(world, row["run_key"]) is not None
        desk.put_frame("", "plan", b"x")
        desk.put_frame("sub", "plan", b"y")
        assert [f["path"] for f in workspaces.frame_list(world, WS, "sub")] == ["sub"]
        assert workspaces.frame_list(world, "elsewhere", None) == []
        assert workspaces.lane_body(world, "none") is None
        for act, code in (
            (lambda: workspaces.run_show(world, "nobody"), "run.unknown"),
            (lambda: workspaces.reaction_show(world, "nobody"), "reaction.unknown"),
            (lambda: workspaces.workspace_body(world, "none"), "workspace.unknown"),
        ):
            with pytest.raises(UnknownName) as raised:
                act()
            assert raised.value.code == code


def test_a_cell_that_has_only_mail_is_not_listed(tmp_path: Path) -> None:
    """08 section 13: a workspace that was added and has not run yet has nothing to show."""
    with at_desk(tmp_path / "w", plain()) as desk:
        told = {"workspace_id": "ws-2", "name": "v", "shared": False, "principal": "ana"}
        sample = desk.clock.sample()
        given = Submit(sample, "sys/WorkspaceAdded@1", told, lens="native", origin="system")
        desk.do(given)
        assert [row["workspace_id"] for row in workspaces.workspace_list(desk.world)] == [WS]


def test_a_projection_is_bounded(tmp_path: Path) -> None:
    """V5: the oldest of each list go; what was refused settles no run; long values are read."""
    with at_desk(tmp_path / "w", plain("mode: {parallel: 2}")) as desk:
        for n in range(3):
            ran(desk, str(n + 1))
        whole, short = seen(desk).view, seen(desk, keep=1).view
        assert (len(whole.triggers), len(short.triggers)) == (3, 1)
        assert list(short.triggers) == list(whole.triggers)[-1:]
        many = seen(desk).view.place(WS)
        assert len(many.stamps_at) == len(desk.told("Observed"))
        desk.write("big/" + "x" * 200, "1")
        for n in range(400):
            desk.write(f"many/{'y' * 150}{n}.txt", "1")
        desk.observe()
        assert seen(desk).view.seq == desk.world.seq
        with planted(workspaces, "ROWS_MAX", 1):
            assert len(workspaces.run_list(desk.world)) == 1
