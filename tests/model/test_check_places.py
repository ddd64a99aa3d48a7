"""Every place of a bundle that can be wrong, named where it stands."""

# tidy: one table of cases per rule, kept beside the test that reads it.

from __future__ import annotations

import pytest

from tallystick.model.check import check
from tallystick.model.manifest_sources import read_sources
from tallystick.values import canon
from tests.model.acme import (
    ARTIFACTS,
    GOOD,
    MIGRATION,
    ROOT,
    TEXT,
    altered,
    call,
    changed,
    errors_in,
    found_in,
    named,
    pure,
    subscribed,
    wired,
)

# ---- more places ----------------------------------------------------------------------------

FLOW, MAN = named("flow@1"), "manifest"
SUBS = "/routing/subscriptions"
BINDING = "/module_bindings/com.acme~1flow@1/slots"
OLD = {**ARTIFACTS, ROOT: b"{}"}
MORE = {
    "state": (altered("flow", state=named("Stat@1")), "ref.schema", FLOW, "/state"),
    "annotations": (altered("flow", annotations=named("A@1")), "ref.schema", FLOW, "/annotations"),
    "reads": (altered("flow", reads=[named("nobody@1")]), "ref.workflow", FLOW, "/reads/0"),
    "receipt": (altered("print", receipt=named("R@1")), "ref.schema", named("print@1"), "/receipt"),
    "effect module": (
        altered("print", impl=call("x", "gone@1")), "ref.module", named("print@1"), "/impl/module"),
    "pure input": (
        altered("keys", pure={**GOOD["keys"]["pure"], "x": pure(named("X@1"), named("Id@1"))}),
        "ref.schema", named("keys@1"), "/pure/x/input"),
    "inline arm": (
        altered("event", type={"variant": {**GOOD["event"]["type"]["variant"], "X": TEXT}}),
        "workflow.bad_event", FLOW, "/event"),
    "arm twice": (
        altered("event", type={"variant": {**GOOD["event"]["type"]["variant"],
                                           "X": {"ref": named("Noted@1")}}}),
        "workflow.bad_event", FLOW, "/event"),
    "external with pure": (
        altered("outside", pure={"f": MIGRATION}), "module.bad_runtime", named("outside@1"),
        "/pure"),
    "no colon": (
        altered("flow", impl=call("flow", "orders@1")), "module.no_entrypoint", FLOW,
        "/impl/entrypoint"),
    "no file": (
        altered("flow", impl=call("order:flow", "orders@1")), "module.no_entrypoint", FLOW,
        "/impl/entrypoint"),
    "cap type": (altered("print", cap_type="prynt"), "ref.cap", named("print@1"), "/cap_type"),
    "slot type": (
        altered("flow", cap_slots={"p": "print", "q": "prin"}), "ref.cap", FLOW, "/cap_slots/q"),
    "grant nobody has": (
        wired(["module_bindings", FLOW, "slots", "p"], "printr"), "cap.unbound", MAN,
        f"{BINDING}/p"),
    "slot of another type": (
        wired(["module_bindings", FLOW, "slots", "p"], "timers"), "cap.type_mismatch", MAN,
        f"{BINDING}/p"),
    "effect without slot": (
        wired(["module_bindings", FLOW], {"slots": {"p": "printer"}}), "cap.unbound", FLOW,
        "/effects_emitted/1"),
    "binding of nobody": (
        wired(["module_bindings", named("who@1")], {"slots": {"p": "printer"}}), "ref.workflow",
        MAN, "/module_bindings/com.acme~1who@1"),
    "grant twice": (
        wired(["authority", "grants", 1], {"name": "printer", "cap": "sys/timer@1"}),
        "def.duplicate", MAN, "/authority/grants/1/name"),
    "fields of a plain cap": (
        wired(["authority", "grants", 1], {"name": "timers", "cap": "sys/effect@1",
                                           "params": {"a": 1}}),
        "cap.bad_params", MAN, "/authority/grants/1/params"),
    "order of no field": (
        altered("cap", order={"queue": "subset"}), "cap.bad_params", named("print@1"),
        "/order/queue"),
    "order of a plain cap": (
        [*changed(), {"$kind": "defcap", "name": named("x@1"), "cap_type": "x",
                      "order": {"a": "max"}}], "cap.bad_params", named("x@1"), "/order/a"),
    "grant without fields": (
        wired(["authority", "grants", 1], {"name": "timers", "cap": "sys/effect@1"}),
        "cap.unbound", FLOW, "/effects_emitted/1"),
    "enforcer": (
        altered("cap", enforcer=call("begin")), "module.no_entrypoint", named("print@1"),
        "/enforcer/entrypoint"),
    "rule about no effect": (
        altered("policy", rules=[{"when": {"effect": named("prin@1")}, "decision": "deny"}]),
        "ref.effect", named("main@1"), "/rules/0/when/effect"),
    "dead rule of an idle policy": (
        altered("idle", rules=[{"decision": "deny"}, {"decision": "allow"}]),
        "policy.unreachable", named("idle@1"), "/rules/1"),
    "two keys": (
        subscribed(key_fn=call("id_of")), "routing.unexpected_key", MAN, f"{SUBS}/0/key_fn"),
    "key of an unkeyed workflow": (
        subscribed(3, key_fn=call("id_of")), "routing.unexpected_key", MAN, f"{SUBS}/3/key_fn"),
    "key_fn answers a state": (
        subscribed(1, key_fn=call("begin")), "routing.key_type", MAN, f"{SUBS}/1/key_fn"),
    "key_fn reads another event": (
        altered("keys", pure={**GOOD["keys"]["pure"],
                              "id_of": pure(named("Noted@1"), named("Id@1"))}),
        "module.no_entrypoint", MAN, f"{SUBS}/1/key_fn/entrypoint"),
    "init_fn answers a key": (
        subscribed(1, init_fn=call("id_of")), "routing.bad_init", MAN, f"{SUBS}/1/init_fn"),
    "init_fn of nobody": (
        subscribed(1, init_fn=call("x", "gone@1")), "ref.module", MAN, f"{SUBS}/1/init_fn/module"),
    "filter": (
        subscribed(filter={"origin": ["workflow:com.acme/plane@1"]}), "ref.workflow", MAN,
        f"{SUBS}/0/filter/origin/0"),
    "event": (subscribed(event=named("Create@2")), "ref.schema", MAN, f"{SUBS}/0/event"),
    "upcast to": (altered("upcast", to=named("C@1")), "ref.schema", named("up@1"), "/to"),
    "upcast of others": (
        altered("upcast", impl=call("begin")), "module.no_entrypoint", named("up@1"),
        "/impl/entrypoint"),
    "upcast back": (
        [*changed(), {**GOOD["upcast"], "name": named("down@1"), "from": named("Created@2"),
                      "to": named("Created@1"), "impl": call("down")},
         {"$kind": "defmodule", "name": named("down@1"), "runtime": GOOD["keys"]["runtime"],
          "pure": {"down": pure(named("Created@2"), named("Created@1"))}}],
        "schema.upcast_ambiguous", named("down@1"), "/to"),
    "migration of nobody": (
        altered("migrate2", workflow=named("who@1"), **{"from": 9, "to": 10}), "ref.workflow",
        named("m2@1"), "/workflow"),
    "migration twice": (
        [*changed(), {**GOOD["migrate1"], "name": named("m3@1")}], "def.duplicate", named("m3@1"),
        "/from"),
    "migration back": (
        [*changed(), {**GOOD["migrate1"], "name": named("m3@1"), "from": 9, "to": 8}],
        "migration.gap", named("m3@1"), "/to"),
    "migration entry": (
        altered("migrate1", impl=call("begin")), "module.no_entrypoint", named("m1@1"),
        "/impl/entrypoint"),
    "unlisted schema in a type": (
        wired(["schemas"], [d["name"] for d in GOOD.values() if d["$kind"] == "defschema"
                            and d["name"] != named("Noted@1")]),
        "ref.unlisted", named("Event@1"), "/type/variant/Noted/ref"),
}  # fmt: skip


@pytest.mark.clause("K-07", "X-01")
@pytest.mark.parametrize("case", MORE)
def test_one_fault_in_a_good_bundle_is_found_at_its_place(case):
    """MO-15: every place that can be wrong is named where it stands, with a hint."""
    documents, code, def_name, path = MORE[case]
    found = found_in(documents, None, ARTIFACTS)
    assert (code, def_name, path) in [(f.code, f.def_name, f.path) for f in found]
    assert all(f.hint and f.message for f in found)


@pytest.mark.clause("K-03", "X-19")
@pytest.mark.parametrize(
    ("artifacts", "code"),
    [
        ({}, "module.no_artifact"),
        ({**ARTIFACTS, ROOT: b"{}"}, "bundle.hash_mismatch"),
        ({text: data for text, data in ARTIFACTS.items() if text != canon.hash_of(b"")},
         "module.no_artifact"),
    ],
)  # fmt: skip
def test_artifacts_that_are_not_there(artifacts, code):
    """MO-15: with artifacts at hand, a missing or unreadable one is named at its module."""
    found = errors_in(changed(), None, artifacts)
    assert (code, named("orders@1"), "/runtime/artifact") in found


@pytest.mark.clause("K-02")
def test_a_pure_module_runs_no_workflow():
    """MO-09 (at check): as `impl.module` of a workflow a pure module is refused."""
    found = errors_in(altered("flow", impl=call("begin")))
    assert found == [("workflow.pure_module", FLOW, "/impl/module")]


@pytest.mark.clause("K-07")
def test_hints_offer_the_nearest_name():
    """MO-15: a misspelt name comes with the one that was meant."""
    found = found_in(altered("flow", effects_emitted=[named("prnt@1"), "sys/timer.set@1"]))
    hints = {f.code: f.hint for f in found}
    assert hints["workflow.effect_unknown"] == "did you mean com.acme/print@1?"


@pytest.mark.clause("K-07")
def test_everything_is_reported_in_one_run():
    """MO-15: faults in different definitions do not hide each other."""
    documents = changed(
        flow={**GOOD["flow"], "colour": 1},
        plain={**GOOD["plain"], "state": named("Stat@1")},
        id={**GOOD["id"], "type": {"txt": {}}},
        print={**GOOD["print"], "cap_type": "fax"},
        upcast={**GOOD["upcast"], "impl": call("up", "orders@1")},
        secret={"$kind": "defplan", "name": named("p@1")},
    )
    assert {code for code, _, _ in errors_in(documents)} == {
        "def.unknown_field", "ref.schema", "schema.unknown_type", "ref.cap", "upcast.not_pure",
        "legacy.defplan",
    }  # fmt: skip


@pytest.mark.clause("K-07")
@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (altered("state", colour=1), [("def.unknown_field", named("State@1"), "/colour")]),
        (altered("noted", type={"txt": {}}), [("schema.unknown_type", named("Noted@1"), "/type")]),
        (altered("noted", type={"ref": named("Event@1")}),
         [("schema.recursive", named("Noted@1"), "/type/variant/Noted/ref"),
          ("schema.recursive", named("Event@1"), "/type/variant/Noted/variant/Noted/ref")]),
        (altered("noted", type={"txt": {"ref": named("Noted@1")}}),
         [("schema.unknown_type", named("Noted@1"), "/type")]),
        (altered("noted", type={"ref": named("N@1")}),
         [("schema.unknown_ref", named("Noted@1"), "/type/ref")]),
        (altered("noted", type={"ref": "N"}), [("schema.bad_name", named("Noted@1"), "/type/ref")]),
        (altered("cap_params", colour=1), [("def.unknown_field", named("PrintCap@1"), "/colour")]),
        (altered("cap", colour=1), [("def.unknown_field", named("print@1"), "/colour")]),
        (altered("id", colour=1), [("def.unknown_field", named("Id@1"), "/colour")]),
        (altered("event", colour=1), [("def.unknown_field", named("Event@1"), "/colour")]),
        (altered("event", type={"variant": 3}),
         [("schema.unknown_type", named("Event@1"), "/type/variant")]),
        (altered("keys", colour=1), [("def.unknown_field", named("keys@1"), "/colour")]),
        (altered("manifest", colour=1), [("def.unknown_field", MAN, "/colour")]),
    ],
)  # fmt: skip
def test_one_mistake_is_reported_once(documents, expected):
    """MO-15: what refers to a definition that cannot be read is not blamed for it."""
    assert sorted(errors_in(documents, None, ARTIFACTS)) == sorted(expected)


def test_without_a_judge_rules_are_left_alone():
    """02 section 7: rules are judged by the room that owns them, handed in by the shell."""
    documents = altered("policy", rules=[{"where": "{{ x. }}", "decision": "deny"}])
    assert check(read_sources(documents)) == []
    assert [f.code for f in found_in(documents)] == ["policy.bad_expression"]


def test_a_bare_bundle_of_definitions_is_only_warned():
    """05: without a manifest everything is listed and nothing is wired, which is no error."""
    found = found_in(changed(manifest=None, migrate1=None, migrate2=None, flow=None), None)
    assert {f.code for f in found} == {"routing.unreachable_workflow", "schema.unused"}


def test_a_workflow_that_is_spawned_lives_on_what_it_is_given():
    """06 section 2: neither unreachable nor unbound, since a parent may pass grants on."""
    parent = {**GOOD["plain"], "effects_emitted": ["sys/workflow.spawn@1"],
              "event": named("Event@1")}  # fmt: skip
    manifest = {
        "$kind": "manifest", "limits": {"fuel": 5},
        "routing": {"subscriptions": [
            {"event": named("Noted@1"), "workflow": named("plain@1")},
            {"event": named("Created@2"), "workflow": named("plain@1")}]},
        "module_bindings": {named("plain@1"): {"slots": {"w": "w"}}},
        "authority": {"grants": [{"name": "w", "cap": "sys/workflow@1"}],
                      "policies": [named("main@1")]},
    }  # fmt: skip
    assert found_in(changed(plain=parent, manifest=manifest)) == []
