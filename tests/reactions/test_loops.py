"""Loops: reactions that would feed themselves or each other (S01 to S08)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.reactions.check import check, overlap
from tallystick.reactions.document import load
from tallystick.reactions.finding import BadReaction
from tallystick.reactions.inputs import inputs_of
from tests.reactions.desk import Desk
from tests.reactions.scenario import at_desk, guarded
from tests.rig import check as holds

README = """
reaction: readme
target: {kind: directory, match: "src/*"}
on: [{files: ["./**"]}]
writes: {files: ["./README.md"]}
overlap: managed
actions:
  - {name: in, file.read: {paths: ["{{ target.path }}/a.py"]}}
  - name: page
    file.write: {path: "{{ target.path }}/README.md", content: "about {{ actions.in.text }}"}
"""


def copying(name: str, source: str, sink: str, extra: str = "") -> str:
    """A reaction that adds its name to one file and writes the next."""
    return f"""
reaction: {name}
on: [{{files: [{source}], generated: true}}]
writes: {{files: [{sink}]}}
{extra}
actions:
  - {{name: in, file.read: {{paths: [{source}]}}}}
  - {{name: out, file.write: {{path: {sink}, content: "{{{{ actions.in.text }}}}{name} "}}}}
"""


def kinds(desk: Desk, reaction: str | None = None) -> list[str]:
    return [outcome for outcome, _ in desk.outcomes(reaction)]


@pytest.mark.clause("F-20", "F-11")
@guarded(is_self=False, is_own_output=False)
def test_s01_one_edit_is_one_run(root: Path) -> None:
    """S01: one edit is one run; its own README is suppressed, nothing follows, digests agree."""
    with at_desk(root, README) as desk:
        desk.write("src/tree/a.py", "one")
        desk.begin()
        desk.write("src/tree/a.py", "two")
        desk.settle_down()
        assert desk.read("src/tree/README.md") == "about two"
        assert [run["outcome"] for run in desk.runs()] == ["complete"]
        assert kinds(desk) == ["accepted", "self_suppressed"]
        first = desk.told("TriggerOffered")[0]["input_digest"]
        for _ in range(20):
            desk.rest(3_000)
        assert len(desk.runs()) == 1
        # Whoever asks by command reads the same inputs: the output is none of them.
        seen = desk.sight(flags=("rescan",))
        again = inputs_of(seen, desk.definitions[0], b"src/tree", {})
        assert again.digest == first
        holds(desk)


GEN = """
reaction: gen
on: [{files: ["gen/in/**"]}]
writes: {files: ["gen/**"]}
OVERLAP
actions:
  - {name: in, file.read: {paths: ["gen/in/a"]}}
  - {name: b, file.write: {path: gen/in/b, content: "b of {{ actions.in.text }}"}}
"""


@pytest.mark.clause("F-12")
@guarded(is_self=False, is_own_output=False)
def test_s02_overlap_is_refused_or_managed(root: Path) -> None:
    """S02: writes that meet triggers are refused with a witness; managed, a write of b is none."""
    (found,) = overlap(load(GEN.replace("OVERLAP", ""), "gen.yaml"))
    assert found.code == "reaction.scope_overlap"
    assert "gen/in" in found.message
    with at_desk(root, GEN.replace("OVERLAP", "overlap: managed")) as desk:
        desk.write("gen/in/a", "one")
        desk.begin()
        desk.write("gen/in/a", "two")
        desk.settle_down()
        desk.rest()
        assert desk.read("gen/in/b") == "b of two"
        assert len(desk.runs()) == 1
        assert kinds(desk) == ["accepted", "self_suppressed"]
        desk.write("gen/in/b", "a person was here")
        desk.settle_down()
        assert desk.outcomes()[-1] == ("ignored", "own_output")
        assert len(desk.runs()) == 1


PING = copying("ping", "x.txt", "y.txt", "on_user_edit: overwrite")
PONG = copying("pong", "y.txt", "x.txt", "on_user_edit: overwrite")


@pytest.mark.clause("F-14")
@guarded(is_reentry=False)
def test_s03_ping_pong_ends_at_reentry(root: Path) -> None:
    """S03: the circle is seen before it runs; started anyway it is A, B, and A is refused."""
    found = check([load(PING, "a"), load(PONG, "b")])
    assert [each.code for each in found] == ["reaction.activation_cycle"]
    assert "x.txt" in found[0].message
    assert "y.txt" in found[0].message
    allowed = [load(text + "cycles: allow", "c") for text in (PING, PONG)]
    assert check(allowed) == []
    with at_desk(root, PING, PONG) as desk:
        desk.write("x.txt", "go ")
        desk.begin()
        desk.write("x.txt", "go go ")
        desk.settle_down()
        desk.rest()
        ran = [(run["reaction"], run["outcome"]) for run in desk.runs()]
        assert ran == [("ping", "complete"), ("pong", "complete")]
        depths = [row["depth"] for row in desk.told("TriggerOffered")]
        assert depths == [0, 1, 2]
        assert ("denied", "reentry") in desk.outcomes("ping")


STABLE = """
reaction: NAME
on: [{files: [SOURCE], generated: true}]
writes: {files: [SINK]}
reentry: {max: 5}
max_depth: 16
cooldown: 0ms
on_user_edit: overwrite
actions:
  - {name: in, file.read: {paths: [SOURCE]}}
  - {name: out, file.write: {path: SINK, content: "{{ actions.in.text | trim }}"}}
"""


@pytest.mark.clause("F-13", "F-14")
@guarded(is_reentry=True)
def test_s04_reentry_ends_when_nothing_changes(root: Path) -> None:
    """S04: with rounds allowed, two formatters come to rest by `unchanged`; none is denied."""
    ping = STABLE.replace("NAME", "ping").replace("SOURCE", "x.txt").replace("SINK", "y.txt")
    pong = STABLE.replace("NAME", "pong").replace("SOURCE", "y.txt").replace("SINK", "x.txt")
    with at_desk(root, ping, pong) as desk:
        desk.write("x.txt", "x")
        desk.begin()
        desk.write("x.txt", "  some text  ")
        desk.settle_down()
        desk.rest()
        assert "denied" not in kinds(desk)
        assert desk.read("y.txt") == "some text"
        bodies = [desk.run_body(run["run_key"]) for run in desk.runs()]
        statuses = [body["results"]["out"]["value"]["status"] for body in bodies]
        assert statuses == ["written", "written", "unchanged"]


@pytest.mark.clause("F-14")
@guarded(is_too_deep=False)
def test_s05_a_chain_ends_at_its_depth(root: Path) -> None:
    """S05: of seven in a row five run; the sixth is refused, the last never asked."""
    chain = [copying(f"w{i}", f"f{i}.txt", f"f{i + 1}.txt") for i in range(1, 8)]
    with at_desk(root, *chain) as desk:
        desk.write("f1.txt", "seed ")
        desk.begin()
        desk.write("f1.txt", "seed seed ")
        desk.settle_down()
        desk.rest()
        assert [run["reaction"] for run in desk.runs()] == ["w1", "w2", "w3", "w4", "w5"]
        assert ("denied", "hop_limit") in desk.outcomes("w6")
        offered = [row for row in desk.told("TriggerOffered") if row["reaction"] == "w6"]
        assert offered[-1]["lineage"] == ["w1", "w2", "w3", "w4", "w5"]
        assert offered[-1]["depth"] == 5
        assert desk.outcomes("w7") == []


CRON = """
reaction: feed
on: [{files: [in.txt]}]
writes: {files: [out.txt]}
cooldown: 0ms
actions:
  - {name: in, file.read: {paths: [in.txt]}}
  - {name: out, file.write: {path: out.txt, content: "{{ actions.in.text }}+"}}
"""


@pytest.mark.clause("F-22")
@guarded(is_tripped=False)
def test_s06_the_breaker_sees_laundered_causes(root: Path) -> None:
    """S06: a cron makes inputs of outputs, all of depth 0: 20 run, one alert, then no."""
    with at_desk(root, CRON) as desk:
        desk.write("in.txt", "0")
        desk.begin()
        for i in range(23):
            desk.write("in.txt", f"{i} of {desk.read('out.txt')}")
            desk.settle_down()
            desk.pass_ms(1_000)
        assert {row["depth"] for row in desk.told("TriggerOffered")} == {0}
        assert len(desk.runs()) == 20
        assert kinds(desk).count("alert") == 1
        assert desk.outcomes().count(("denied", "breaker_open")) == 3
        desk.pass_ms(11 * 60_000)
        desk.write("in.txt", "later")
        desk.settle_down()
        assert len(desk.runs()) == 21, "half-open lets one pass"


@pytest.mark.clause("F-09", "F-11")
@guarded(is_self=False)
def test_s07_an_edited_definition_knows_its_old_outputs(root: Path) -> None:
    """S07: outputs of the old version start nothing; the next change runs under a new run key."""
    formatter = CRON.replace("[in.txt]", '["*.txt"]').replace(
        "cooldown", "overlap: managed\ncooldown"
    )
    with at_desk(root, formatter) as desk:
        desk.write("in.txt", "one")
        desk.begin()
        desk.write("in.txt", "two")
        desk.settle_down()
        (first,) = desk.runs()
        old = desk.definitions[0].hash
        made = (root / "out.txt").read_bytes()
        desk.load(formatter.replace("}}+", "}}-"))
        assert desk.definitions[0].hash != old
        (root / "out.txt").unlink()
        desk.settle_down()
        (root / "out.txt").write_bytes(made)
        desk.settle_down()
        assert len(desk.runs()) == 1
        assert kinds(desk)[-1] == "self_suppressed"
        desk.write("in.txt", "three")
        desk.settle_down()
        assert len(desk.runs()) == 2
        assert desk.runs()[1]["run_key"] != first["run_key"]


@pytest.mark.clause("F-12")
def test_s08_state_paths_cannot_be_named() -> None:
    """S08: `**` is fine, hard ignores come first; to name the runtime's places is not."""
    good = CRON.replace("[in.txt]", '["**"]').replace("cooldown", "overlap: managed\ncooldown")
    assert load(good, "good").name == "feed"
    for named in (".tally/**", ".reactions/*.yaml", "sub/.tally/x"):
        for field in ("[in.txt]", "[out.txt]"):
            with pytest.raises(BadReaction) as refused:
                load(CRON.replace(field, f"['{named}']"), "bad")
            assert [each.code for each in refused.value.findings] == ["reaction.state_path"]
            assert refused.value.findings[0].line > 1
