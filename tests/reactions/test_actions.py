"""Actions: each kind asks for what it says, and its result can be used (F-05, F-21)."""

# tidy: one test for each kind of action.
from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.errors import TallyError
from tallystick.kernel.inputs import Activate, Submit
from tallystick.model.records import EventAdmitted
from tallystick.playbooks.document import load as load_playbook
from tallystick.reactions.bundle import reaction_documents
from tallystick.reactions.document import load
from tests.reactions.desk import WS, Desk
from tests.reactions.scenario import at_desk, guarded
from tests.rig import bundle_of
from tests.worlds import NAT, record
from tests.worlds import schema as shape


def acting(*actions: str, extra: str = "") -> str:
    lines = "".join(f"  - {action}\n" for action in actions)
    return f"""
reaction: acting
on: [{{files: [a.txt]}}]
writes: {{files: ["out/**"], frames: [note]}}
cooldown: 0ms
{extra}
actions:
{lines}"""


def edited(desk: Desk) -> None:
    desk.write("a.txt", "0")
    desk.begin()
    desk.write("a.txt", "1")
    desk.settle_down()


CONTEXT = """
reaction: docs-context
target: {kind: directory, match: "src/*"}
on: [{files: ["./**/*.py"]}]
writes: {frames: [docs-context]}
actions:
  - {name: code, file.read: {paths: ["{{ target.path }}/a.py"]}}
  - {name: words, provider.call: {model: m-1, prompt: d.md, input: "{{ actions.code.text }}"}}
  - {name: put, frame.put: {type: docs-context, content: "{{ actions.words.text }}"}}
"""
WRITER = """
reaction: docs-writer
target: {kind: directory, match: "src/*"}
on: [{frame: {type: docs-context}}, {command: true}]
reads: {files: [], frames: [docs-context]}
writes: {files: ["design/generated/**"]}
policy:
  rules:
    - {id: fresh, when: "{{ facts.frames['docs-context'].fresh }}", else: defer, code: frame_stale}
actions:
  - name: page
    file.write:
      path: "design/generated/{{ target.name }}.md"
      content: "{{ frames['docs-context'].content }}"
  - {name: tell, telemetry.emit: {name: docs.page, value: 1, attrs: {target: "{{ target.path }}"}}}
"""


@pytest.mark.clause("F-01", "F-05", "F-20", "F-23")
@guarded(is_known=True)
def test_the_docs_writer_of_the_seed(root: Path) -> None:
    """F-20: one edit, one context, one page at depth 1; nothing recursive, no call for a repeat."""
    with at_desk(root, CONTEXT, WRITER, prompts={"d.md": b"describe it"}) as desk:
        desk.write("src/tree/a.py", "old")
        desk.begin()
        desk.answer = "what the tree does"
        desk.write("src/tree/a.py", "new")
        desk.settle_down()
        assert desk.read("design/generated/tree.md") == "what the tree does"
        assert [run["reaction"] for run in desk.runs()] == ["docs-context", "docs-writer"]
        depths = [(row["kind"], row["depth"]) for row in desk.told("TriggerOffered")]
        assert depths == [("fs.changed", 0), ("context.frame", 1)]
        assert desk.models[0]["messages"][1]["content"] == "new"
        # Another edit, of which the model says the same: the frame's content is no new input.
        desk.pass_ms(5_000)
        desk.write("src/tree/a.py", "newer")
        desk.settle_down()
        desk.rest()
        assert len(desk.models) == 2
        assert [run["outcome"] for run in desk.runs("docs-writer")] == ["complete"]
        assert desk.outcomes("docs-writer")[-1] == ("reused", None)


@pytest.mark.clause("F-05", "F-22")
def test_a_model_answers_in_json_and_costs_tokens(tmp_path: Path) -> None:
    """F-05: with a schema the words are read as JSON; tokens count toward the breaker."""
    call = "{name: ask, provider.call: {model: m-1, prompt: p.md, schema: {type: object}}}"
    use = '{name: w, file.write: {path: out/x, content: "{{ actions.ask.json.title }}"}}'
    text = acting(call, use, extra="breaker: {tokens: 15}")
    with at_desk(tmp_path / "w", text, prompts={"p.md": b"ask"}) as desk:
        desk.answer = '{"title": "A day"}'
        edited(desk)
        assert desk.read("out/x") == "A day"
        desk.answer = "no JSON at all"
        desk.write("a.txt", "2")
        desk.settle_down()
        assert desk.runs()[-1]["code"] == "provider.not_json"
        desk.write("a.txt", "3")
        desk.settle_down()
        assert desk.outcomes()[-1] == ("denied", "breaker_open")
        assert len(desk.models) == 2
        desk.reset("acting")
        desk.answer = '{"title": "Another"}'
        desk.write("a.txt", "4")
        desk.settle_down()
        assert desk.read("out/x") == "Another"


@pytest.mark.clause("F-05")
def test_delete_and_emit_frame(tmp_path: Path) -> None:
    """F-05: a write may become a frame by opt-in; a deletion is stamped too."""
    text = acting(
        "{name: w, file.write: {path: out/x, content: words, emit_frame: note}}",
        "{name: d, file.delete: {path: out/x}}",
    )
    with at_desk(tmp_path / "w", text) as desk:
        edited(desk)
        assert desk.runs()[-1]["outcome"] == "complete"
        assert desk.read("out/x") is None
        (head,) = desk.told("FrameHeadChanged")
        assert (head["type"], head["writer"]["reaction"]) == ("note", "acting")
        last = desk.fold().by_path(WS, b"out/x")[0]
        assert last.post_id is None


@pytest.mark.clause("F-05")
def test_a_queued_command_is_one_level_deeper(tmp_path: Path) -> None:
    """08 section 10: frame.queue asks for another reaction, with depth, lineage and root."""
    other = """
reaction: other
on: [{command: true}]
writes: {files: [other.txt]}
actions: [{name: w, file.write: {path: other.txt, content: "asked by {{ trigger.actor.id }}"}}]
"""
    with at_desk(
        tmp_path / "w", acting("{name: q, frame.queue: {reaction: other}}"), other
    ) as desk:
        edited(desk)
        assert desk.read("other.txt") == "asked by acting"
        offered = desk.told("TriggerOffered")[-1]
        assert (offered["kind"], offered["depth"]) == ("command", 1)
        assert offered["lineage"] == ["acting"]
        assert offered["root_trigger_id"] == desk.told("TriggerOffered")[0]["root_trigger_id"]


@pytest.mark.clause("F-05")
def test_a_run_waits_for_what_it_generates(tmp_path: Path) -> None:
    """08 section 10: frame.generate goes on when the asked reaction has ended, or fails in time."""
    other = """
reaction: other
on: [{command: true}]
writes: {frames: [note]}
actions: [{name: p, frame.put: {type: note, content: "words"}}]
"""
    asking = acting(
        "{name: g, frame.generate: {reaction: other}, timeout: 30s}",
        '{name: w, file.write: {path: out/x, content: "{{ actions.g.outcome }}"}}',
    )
    with at_desk(tmp_path / "w", asking, other) as desk:
        edited(desk)
        assert [run["reaction"] for run in desk.runs()] == ["other", "acting"]
        assert desk.read("out/x") == "complete"
        assert len(desk.told("FrameHeadChanged")) == 1
    with at_desk(
        tmp_path / "nobody", asking.replace("reaction: other", "reaction: nobody")
    ) as desk:
        edited(desk)
        assert desk.runs() == []
        desk.pass_ms(31_000)
        assert [(run["outcome"], run["code"]) for run in desk.runs()] == [
            ("failed", "action.timeout")
        ]


@pytest.mark.clause("F-05")
def test_events_that_cannot_be_sent_fail_the_action(tmp_path: Path) -> None:
    """F-05: an event goes through routing; one without a schema, or of ours, fails the run."""
    for schema in ("sys/Observed@1", "com.acme/Nobody@1"):
        text = acting(f'{{name: e, event.send: {{schema: "{schema}", value: {{}}}}}}')
        with at_desk(tmp_path / schema.replace("/", "_"), text) as desk:
            edited(desk)
            assert desk.runs()[-1]["code"] == "reaction.event"


@pytest.mark.clause("F-05")
@pytest.mark.parametrize(("value", "code"), [("{n: 1}", None), ("{n: one}", "reaction.event")])
def test_an_event_is_sent_if_it_fits_its_schema(
    tmp_path: Path, value: str, code: str | None
) -> None:
    """F-05: what a reaction sends is judged before it is sent; what does not fit fails the run."""
    made = [shape("com.acme/Seen@1", record(n=NAT)), *reaction_documents()]
    text = acting(f'{{name: e, event.send: {{schema: "com.acme/Seen@1", value: {value}}}}}')
    with at_desk(tmp_path / "w", text) as desk:
        manifest, blobs = bundle_of(made)
        sample = desk.clock.sample()
        desk.do(Activate(sample, manifest, manifest, desk.manifest, blobs, "alice"))
        edited(desk)
        assert desk.runs()[-1]["code"] == code
        sent = [each for each in desk.records(EventAdmitted) if each.schema == "com.acme/Seen@1"]
        assert len(sent) == (code is None)


@pytest.mark.clause("F-05")
def test_on_error_and_when(tmp_path: Path) -> None:
    """08 section 2: an action may be skipped by its guard, or fail and let the run go on."""
    text = acting(
        '{name: no, file.write: {path: out/no, content: x}, when: "{{ trigger.depth > 0 }}"}',
        "{name: bad, file.write: {path: elsewhere, content: x}, on_error: continue}",
        '{name: yes, file.write: {path: out/yes, content: "{{ actions.bad.code }}"}}',
    )
    with at_desk(tmp_path / "w", text) as desk:
        edited(desk)
        assert desk.read("out/no") is None
        assert desk.read("out/yes") == "scope_violation"
        (attempt,) = desk.run_body(desk.runs()[0]["run_key"])["attempts"]
        assert [each["status"] for each in attempt["actions"]] == ["skipped", "failed", "ok"]


@pytest.mark.clause("F-05")
def test_large_values_pass_whole(tmp_path: Path) -> None:
    """08 section 10: over 64 KiB a value is a reference: it passes whole, and is no text."""
    big = "x" * 70_000
    read = "{name: in, file.read: {paths: [a.txt]}}"
    whole = acting(read, '{name: w, file.write: {path: out/x, content: "{{ actions.in }}"}}')
    text = acting(read, '{name: w, file.write: {path: out/x, content: "of {{ actions.in }}"}}')
    for name, reaction in (("whole", whole), ("text", text)):
        with at_desk(tmp_path / name, reaction) as desk:
            desk.write("a.txt", "0")
            desk.begin()
            desk.write("a.txt", big)
            desk.settle_down()
            if name == "whole":
                assert desk.read("out/x") == big
            else:
                assert desk.runs()[-1]["code"] == "reaction.ref_in_text"
                assert desk.read("out/x") is None


@pytest.mark.clause("F-21")
def test_an_action_that_configuration_adds(tmp_path: Path) -> None:
    """F-21: an adapter is an effect with fixed params; it is under the hash and under a grant."""
    adapters = {
        "ping": {
            "effect": "sys/http.request@1",
            "slot": "http",
            "params": {"method": "POST", "headers": None, "body": None, "body_ref": None},
            "cap": {"hosts": ["hooks.example"]},
        }
    }
    text = acting('{name: p, ping: {url: "https://hooks.example/x", redirects: null}}')
    made = load(text, "p", adapters=adapters)
    assert made.hash != load(text, "p", adapters={"ping": {**adapters["ping"], "cap": {}}}).hash
    with at_desk(tmp_path / "w", text, adapters=adapters) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.observe()
        (job,) = desk.jobs.of("sys/http.request@1")
        assert job.granted is not None
        assert job.granted["hosts"] == ["hooks.example"]
        assert desk.param(job)["url"] == "https://hooks.example/x"


PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: hello}
workload: {who: nobody}
workflow:
  - step: say
    tool: {kind: noop}
"""


@pytest.mark.clause("F-05")
def test_a_run_calls_a_playbook(tmp_path: Path) -> None:
    """F-05: playbook.run is a child by `sys/workflow.call@1`; the run goes on when it ended."""
    text = acting(
        "{name: play, playbook.run: {playbook: hello.yaml, workload: {who: me}}}",
        '{name: w, file.write: {path: out/x, content: "{{ actions.play.result.status }}"}}',
    )
    prompts = {"hello.yaml": load_playbook(PLAYBOOK).bytes}
    with at_desk(tmp_path / "w", text, prompts=prompts) as desk:
        edited(desk)
        assert desk.runs()[-1]["outcome"] == "complete", desk.runs()[-1]
        assert desk.read("out/x") == "success"


def test_only_the_nodes_own_rooms_may_observe(tmp_path: Path) -> None:
    """03 section 2: observations and internal events of reactions are refused from outside."""
    with at_desk(tmp_path / "w", acting("{name: t, telemetry.emit: {name: n}}")) as desk:
        for schema in ("WorkspaceTrust", "RunRequested", "RunSettled", "TriggerOffered"):
            for origin in ("external", "system"):
                if (schema, origin) == ("WorkspaceTrust", "system"):
                    continue
                given = Submit(desk.clock.sample(), f"sys/{schema}@1", {}, origin=origin)
                with pytest.raises(TallyError) as refused:
                    desk.do(given)
                assert refused.value.code == "ingress.reserved_schema"


def test_a_stale_observation_changes_nothing(tmp_path: Path) -> None:
    """08 section 6: an observation from another tree or number is a record and nothing else."""
    with at_desk(tmp_path / "w", acting("{name: t, telemetry.emit: {name: n}}")) as desk:
        edited(desk)
        n, ran = desk.workspace()["n"], len(desk.runs())
        desk.write("a.txt", "2")
        seen, tree = desk.n, desk.tree
        desk.n = seen - 1
        desk.observe()
        assert desk.outcomes()[-1][0] == "stale_observation"
        assert (desk.workspace()["n"], len(desk.runs())) == (n, ran)
        desk.n, desk.tree = seen, tree
        desk.settle_down()
        assert len(desk.runs()) == ran + 1


@pytest.mark.clause("F-05", "F-22")
def test_many_files_are_read_by_one_action(tmp_path: Path) -> None:
    """F-05: more answers than one page: all are there, in order, and the state stays small."""
    text = acting(
        '{name: in, file.read: {paths: ["src/*"]}}',
        '{name: w, file.write: {path: out/x, content: "{{ actions.in.files | length }}"}}',
        extra='reads: {files: ["src/*"]}',
    ).replace("[a.txt]", '["src/*"]')
    with at_desk(tmp_path / "w", text) as desk:
        desk.begin()
        for i in range(70):
            desk.write(f"src/{i:02}", f"v{i}")
        desk.observe()
        for _ in range(66):
            desk.step()
        (run_key,) = desk.workspace()["active"]
        cursor = desk.run_body(run_key)["cursor"]
        assert (len(cursor["got"]), len(cursor["pages"]), len(cursor["open"])) == (2, 1, 4)
        desk.work()
        assert desk.read("out/x") == "70"
