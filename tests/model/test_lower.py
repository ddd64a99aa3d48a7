"""Older spellings: lowered to one canonical form, or refused in fixed words."""

# tidy: one table of cases per rule, kept beside the test that reads it.

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import BadDefinition
from tallystick.model.lower import lower
from tallystick.model.lower_output import lower_output
from tallystick.model.manifest import manifest_hash
from tallystick.model.manifest_sources import canonical_sources, read_sources
from tallystick.model.sys_definitions import effect_kinds

H = "sha256:" + "22" * 32
FLOW = "com.acme/order@1"
WASM = {"kind": "wasm", "artifact": {"kind": "wasm_module", "hash": H}}
FACE = {"state": "com.acme/S@1", "event": "com.acme/E@1", "effects_emitted": []}
MODULE = {"$kind": "defmodule", "name": FLOW, "runtime": WASM}
WORKFLOW = {
    "$kind": "defworkflow",
    "name": FLOW,
    **FACE,
    "impl": {"module": FLOW, "entrypoint": "step"},
}
EXTERNAL = {"$kind": "defmodule", "name": "com.acme/charge@1", "runtime": {"kind": "external"}}
EFFECT = {
    "$kind": "defeffect",
    "name": "com.acme/charge@1",
    "params": "com.acme/P@1",
    "receipt": "com.acme/R@1",
    "cap_type": "http.out",
    "impl": {"module": "com.acme/charge@1", "entrypoint": "pay.charge"},
}
OLD_EFFECT = {
    "$kind": "defeffect",
    "name": "com.acme/charge@1",
    "kind": "pay.charge",
    "params_schema": "com.acme/P@1",
    "receipt_schema": "com.acme/R@1",
    "cap_type": "http.out",
    "origin_scope": "both",
}
GRANT = {"name": "g", "cap": "sys/http.out@1", "params": {"hosts": ["a.example"]}}
PURE = {"input": "com.acme/A@1", "output": "com.acme/B@1"}
CAP = {"$kind": "defcap", "name": "com.acme/print@1", "cap_type": "print"}


def manifest(**sections):
    return {"$kind": "manifest", "air_version": "2", **sections}


def subscribed(**target):
    return manifest(routing={"subscriptions": [{"event": "com.acme/E@1", **target}]})


def old_module(**more):
    return {
        "$kind": "defmodule",
        "name": FLOW,
        "module_kind": "workflow",
        "wasm_hash": H,
        "abi": {"workflow": FACE},
        **more,
    }


def policy(**when):
    return {
        "$kind": "defpolicy",
        "name": "com.acme/main@1",
        "rules": [{"when": when, "decision": "allow"}],
    }


# row of 02 section 4 -> (older documents, canonical documents)
ROWS = {
    "routing.events": (
        [MODULE, WORKFLOW,
         manifest(routing={"events": [{"event": "com.acme/E@1", "workflow": FLOW}]})],
        [MODULE, WORKFLOW, subscribed(workflow=FLOW)],
    ),
    "subscription reducer": (
        [MODULE, WORKFLOW, subscribed(reducer=FLOW)],
        [MODULE, WORKFLOW, subscribed(workflow=FLOW)],
    ),
    "subscription module": (
        [MODULE, {**WORKFLOW, "name": "com.acme/flow@1"}, subscribed(module=FLOW)],
        [MODULE, {**WORKFLOW, "name": "com.acme/flow@1"}, subscribed(workflow="com.acme/flow@1")],
    ),
    "subscription op": (
        [MODULE, WORKFLOW, subscribed(op=FLOW)],
        [MODULE, WORKFLOW, subscribed(workflow=FLOW)],
    ),
    "defmodule abi.workflow": ([old_module()], [MODULE, WORKFLOW]),
    "defmodule abi.reducer": (
        [old_module(module_kind="reducer", abi={"reducer": FACE})],
        [MODULE, WORKFLOW],
    ),
    "defmodule key_schema": (
        [old_module(key_schema="com.acme/Id@1")],
        [MODULE, {**WORKFLOW, "key_schema": "com.acme/Id@1"}],
    ),
    "defmodule abi.pure": (
        [{"$kind": "defmodule", "name": FLOW, "module_kind": "pure", "wasm_hash": H,
          "abi": {"pure": PURE}}],
        [{**MODULE, "pure": {"run": PURE}}],
    ),
    "abi cap_slots": (
        [old_module(abi={"workflow": {**FACE, "cap_slots": {"pay": "http.out"}}})],
        [MODULE, {**WORKFLOW, "cap_slots": {"pay": "http.out"}}],
    ),
    "sys/ReducerContext@1": (
        [MODULE, {**WORKFLOW, "context": "sys/ReducerContext@1"}],
        [MODULE, {**WORKFLOW, "context": "sys/WorkflowContext@1"}],
    ),
    "sys/ReducerContext@1 as a ref": (
        [{"$kind": "defschema", "name": "com.acme/X@1",
          "type": {"record": {"c": {"ref": "sys/ReducerContext@1"}}}}],
        [{"$kind": "defschema", "name": "com.acme/X@1",
          "type": {"record": {"c": {"ref": "sys/WorkflowContext@1"}}}}],
    ),
    "defop workflow, manifest.ops": (
        [MODULE, {"$kind": "defop", "name": FLOW, "op_kind": "workflow", "workflow": FACE,
                  "impl": WORKFLOW["impl"]}, manifest(modules=[FLOW], ops=[FLOW])],
        [MODULE, WORKFLOW, manifest(modules=[FLOW], workflows=[FLOW])],
    ),
    "defop effect, manifest.ops": (
        [EXTERNAL, {"$kind": "defop", "name": EFFECT["name"], "op_kind": "effect",
                    "effect": {k: EFFECT[k] for k in ("params", "receipt", "cap_type")},
                    "impl": EFFECT["impl"]},
         manifest(ops=[{"name": EFFECT["name"]}, {"name": "sys/timer.set@1"}])],
        [EXTERNAL, EFFECT, manifest(effects=[EFFECT["name"], "sys/timer.set@1"])],
    ),
    "defeffect kind": ([OLD_EFFECT], [EFFECT, EXTERNAL]),
    "defop without its inner object": (
        [MODULE, {**WORKFLOW, "$kind": "defop", "op_kind": "workflow"}],
        [MODULE, WORKFLOW],
    ),
    "defaults with a policy alone": (
        [policy(), {"$kind": "manifest", "defaults": {"policy": "com.acme/main@1"}}],
        [policy(), manifest(authority={"policies": ["com.acme/main@1"]})],
    ),
    "capability listed beside absent schemas": (
        [{**CAP, "schema": {"record": {}}}, {"$kind": "manifest", "caps": ["com.acme/print@1"]}],
        [{**CAP, "params": "com.acme/print.params@1"},
         {"$kind": "defschema", "name": "com.acme/print.params@1", "type": {"record": {}}},
         manifest()],
    ),
    "kinds in effects_emitted": (
        [OLD_EFFECT, MODULE, {**WORKFLOW, "effects_emitted": ["pay.charge", "timer.set"]}],
        [EFFECT, EXTERNAL, MODULE,
         {**WORKFLOW, "effects_emitted": ["com.acme/charge@1", "sys/timer.set@1"]}],
    ),
    "defcap.schema": (
        [{**CAP, "schema": {"record": {"queues": {"set": {"text": {}}}}}}],
        [{**CAP, "params": "com.acme/print.params@1"},
         {"$kind": "defschema", "name": "com.acme/print.params@1",
          "type": {"record": {"queues": {"set": {"text": {}}}}}}],
    ),
    "defcap.schema by ref": (
        [{**CAP, "schema": {"ref": "com.acme/Q@1"}, "enforcer": {"module": "com.acme/k@1"}}],
        [{**CAP, "params": "com.acme/Q@1",
          "enforcer": {"module": "com.acme/k@1", "entrypoint": "run"}}],
    ),
    "defcap.schema by name": (
        [{**CAP, "schema": "com.acme/Q@1"}],
        [{**CAP, "params": "com.acme/Q@1"}],
    ),
    "defaults": (
        [policy(effect="sys/timer.set@1"),
         {"$kind": "manifest", "air_version": "1",
          "defaults": {"policy": "com.acme/main@1", "cap_grants": [{**GRANT, "expiry_ns": 9}]}}],
        [policy(effect="sys/timer.set@1"),
         manifest(authority={"policies": ["com.acme/main@1"],
                             "grants": [{**GRANT, "expires_ns": 9}]})],
    ),
    "expiry_ns in authority": (
        [manifest(authority={"grants": [{**GRANT, "expiry_ns": 9}]})],
        [manifest(authority={"grants": [{**GRANT, "expires_ns": 9}]})],
    ),
    "policy words": (
        [OLD_EFFECT, policy(effect_kind="pay.charge", cap_name="g", origin_kind="reducer",
                            origin_name="com.acme/order.*")],
        [EFFECT, EXTERNAL, policy(effect="com.acme/charge@1", grant="g", origin="workflow",
                                  workflow="com.acme/order.*")],
    ),
    "module_bindings by module": (
        [MODULE, {**WORKFLOW, "name": "com.acme/a@1"}, {**WORKFLOW, "name": "com.acme/b@1"},
         manifest(module_bindings={FLOW: {"slots": {"pay": "g"}}})],
        [MODULE, {**WORKFLOW, "name": "com.acme/a@1"}, {**WORKFLOW, "name": "com.acme/b@1"},
         manifest(module_bindings={"com.acme/a@1": {"slots": {"pay": "g"}},
                                   "com.acme/b@1": {"slots": {"pay": "g"}}})],
    ),
    "decision_log": (
        [MODULE, {**WORKFLOW, "determinism": "decision_log"}],
        [MODULE, {**WORKFLOW, "determinism": "checked"}],
    ),
    "air_version 1": (
        [old_module(), {"$kind": "manifest", "air_version": "1"}],
        [MODULE, WORKFLOW, manifest()],
    ),
    "a whole first-version bundle": (
        [old_module(abi={"workflow": {**FACE, "effects_emitted": ["pay.charge"]}}), OLD_EFFECT,
         {**CAP, "schema": {"record": {}}},
         {"$kind": "manifest", "air_version": "1", "schemas": [],
          "modules": [{"name": FLOW, "hash": H}],
          "effects": [{"name": "com.acme/charge@1", "hash": H}],
          "caps": [{"name": "com.acme/print@1", "hash": H}],
          "routing": {"events": [{"event": "com.acme/E@1", "reducer": FLOW}]},
          "module_bindings": {FLOW: {"slots": {"pay": "g"}}},
          "defaults": {"cap_grants": [GRANT]}}],
        [MODULE, {**WORKFLOW, "effects_emitted": ["com.acme/charge@1"]}, EFFECT, EXTERNAL,
         {**CAP, "params": "com.acme/print.params@1"},
         {"$kind": "defschema", "name": "com.acme/print.params@1", "type": {"record": {}}},
         manifest(routing={"subscriptions": [{"event": "com.acme/E@1", "workflow": FLOW}]},
                  module_bindings={FLOW: {"slots": {"pay": "g"}}},
                  authority={"grants": [GRANT]})],
    ),
}  # fmt: skip


def by_name(definitions):
    return {(d["$kind"], d["name"]): d for d in definitions}


@pytest.mark.clause("K-32")
@pytest.mark.parametrize("row", ROWS)
def test_both_spellings_are_one_manifest(row):
    """MO-02, KN-21: older and canonical spelling give equal definitions and manifest hash."""
    older, newer = ROWS[row]
    old_defs, old_manifest = canonical_sources(older)
    new_defs, new_manifest = canonical_sources(newer)
    assert by_name(old_defs) == by_name(new_defs)
    assert old_manifest == new_manifest
    assert manifest_hash(old_manifest) == manifest_hash(new_manifest)


@pytest.mark.clause("K-32")
@pytest.mark.parametrize("row", ROWS)
def test_only_the_older_spelling_is_noted(row):
    """MO-02: an older spelling is a warning `legacy.note`; the canonical one has no finding."""
    older, newer = ROWS[row]
    found = read_sources(older).findings
    assert found
    assert {f.code for f in found} == {"legacy.note"}
    assert all(f.warning for f in found)
    assert read_sources(newer).findings == ()


@pytest.mark.clause("K-32")
@pytest.mark.parametrize("row", ROWS)
def test_the_canonical_form_reads_back_as_itself(row):
    """MO-02: what is exported knows no older spelling, so reading it again changes nothing."""
    definitions, made = canonical_sources(ROWS[row][0])
    again, remade = canonical_sources([*definitions, made])
    assert (again, remade) == (definitions, made)
    assert read_sources([definitions, made]).findings == ()


PLAN_WORDS = "plan-era records cannot be folded: import the state as events"
REFUSED = [
    (
        {"$kind": "defplan", "name": "com.acme/p@1"},
        "legacy.defplan",
        "defplan is gone: write a defworkflow, or a playbook if an operator owns the steps",
    ),
    (
        manifest(plans=[]),
        "legacy.defplan",
        "defplan is gone: write a defworkflow, or a playbook if an operator owns the steps",
    ),
    (
        manifest(triggers=[{"event": "com.acme/E@1", "plan": "com.acme/p@1"}]),
        "legacy.triggers",
        "triggers are gone: list the event and its workflow under routing.subscriptions",
    ),
    (
        manifest(routing={"triggers": []}),
        "legacy.triggers",
        "triggers are gone: list the event and its workflow under routing.subscriptions",
    ),
    (
        manifest(routing={"inboxes": []}),
        "legacy.inboxes",
        "routing.inboxes is gone: submit an event to the world",
    ),
    ({"record": "PlanStarted", "plan": "com.acme/p@1"}, "legacy.plan_record", PLAN_WORDS),
    ({"kind": "plan_result", "plan_id": 1}, "legacy.plan_record", PLAN_WORDS),
]


@pytest.mark.clause("K-24")
@pytest.mark.parametrize(("document", "code", "words"), REFUSED)
def test_what_is_gone_is_refused_in_these_words(document, code, words):
    """MO-03, KN-21: plan-era documents are refused, exit 2, with exactly the words of 02."""
    with pytest.raises(BadDefinition) as caught:
        canonical_sources([document])
    assert caught.value.code == code
    assert caught.value.message == words
    assert caught.value.exit_code == 2
    errors = [f for f in lower([document]).findings if not f.warning]
    assert [f.code for f in errors] == [code]


@pytest.mark.clause("K-24", "K-32")
@pytest.mark.parametrize(
    "document",
    [
        old_module(runtime=WASM),
        {**OLD_EFFECT, "impl": EFFECT["impl"]},
        {**CAP, "schema": {"record": {}}, "order": {}},
        policy(effect_kind="timer.set", effect="sys/timer.set@1"),
        policy(origin_kind="workflow", grant="g"),
        {"$kind": "manifest", "air_version": "1", "workflows": []},
        {"$kind": "manifest", "defaults": {}, "authority": {}},
    ],
)
def test_a_document_of_two_versions_is_refused(document):
    """MO-02: a document mixing v1-only and v2-only fields is `legacy.mixed_versions`."""
    assert [f.code for f in lower([document]).findings] == ["legacy.mixed_versions"]
    assert read_sources([document]).manifest is None


def test_a_target_with_several_workflows_is_ambiguous():
    """MO-02: a module of several workflows cannot be a target."""
    flows = [{**WORKFLOW, "name": f"com.acme/{n}@1"} for n in "ab"]
    found = read_sources([MODULE, *flows, subscribed(module=FLOW)]).findings
    errors = [(f.code, f.path) for f in found if not f.warning]
    assert errors == [("routing.ambiguous_target", "/routing/subscriptions/0/module")]


def test_a_target_without_workflow_is_named():
    """MO-02: a module that implements nothing cannot be a target."""
    found = read_sources([MODULE, subscribed(module=FLOW)]).findings
    assert ("ref.workflow", "/routing/subscriptions/0/module") in [(f.code, f.path) for f in found]


def test_an_unknown_kind_of_effect_is_named():
    """K-07: a kind that no effect has cannot become a name."""
    found = lower([{**WORKFLOW, "effects_emitted": ["fax.send"]}]).findings
    assert [(f.code, f.path) for f in found] == [("workflow.effect_unknown", "/effects_emitted/0")]
    found = lower([policy(effect_kind="fax.send")]).findings
    path = "/rules/0/when/effect_kind"
    assert ("workflow.effect_unknown", path) in [(f.code, f.path) for f in found]


def test_an_unlisted_module_of_the_first_version_brings_no_workflow():
    """MO-02: a first-version manifest activates what it lists and nothing else."""
    other = old_module(name="com.acme/other@1")
    source = {"$kind": "manifest", "air_version": "1", "modules": [FLOW]}
    _, made = canonical_sources([old_module(), other, source])
    assert [row["name"] for row in made["modules"]] == [FLOW]
    assert [row["name"] for row in made["workflows"]] == [FLOW]


def test_several_manifests_are_one():
    """02 section 1: sources are merged; a contradiction is named."""
    one = manifest(limits={"fuel": 5}, modules=[FLOW])
    two = manifest(limits={"events_max": 2}, modules=[])
    _, made = canonical_sources([MODULE, one, two])
    assert made["limits"] == {"fuel": 5, "events_max": 2}
    found = lower([manifest(limits={"fuel": 5}), manifest(limits={"fuel": 6})]).findings
    assert [(f.code, f.path) for f in found] == [("def.duplicate", "/limits/fuel")]


@pytest.mark.clause("K-32")
@pytest.mark.parametrize(
    ("document", "path"),
    [
        (old_module(module_kind="plan"), "/module_kind"),
        (old_module(abi={"workflow": FACE, "colour": 1}), "/abi/colour"),
        ({"$kind": "manifest", "defaults": {"colour": 1}}, "/defaults"),
        ({"$kind": "manifest", "defaults": {"cap_grants": 3}}, "/defaults"),
        (manifest(ops=3), "/ops"),
        (manifest(routing={"events": 3}), "/routing/events"),
        (manifest(routing={"subscriptions": [{"event": "com.acme/E@1", "op": 1,
                                              "workflow": FLOW}]}),
         "/routing/subscriptions/0/op"),
    ],
)  # fmt: skip
def test_nothing_is_dropped_in_silence(document, path):
    """MO-02: an older field that cannot be lowered is named, never forgotten."""
    found = read_sources([document]).findings
    assert path in [f.path for f in found if not f.warning]


def test_manifests_of_two_versions_add_up():
    """MO-02: merging sources of both versions loses no grant and no policy."""
    first = {"$kind": "manifest", "air_version": "1", "defaults": {"cap_grants": [GRANT]}}
    second = {"$kind": "manifest", "authority": {"grants": [{**GRANT, "name": "h"}]}}
    _, made = canonical_sources([first, second])
    assert {row["name"] for row in made["authority"]["grants"]} == {"g", "h"}


@pytest.mark.parametrize(
    "document",
    [
        {"$kind": "defop", "name": "com.acme/x@1", "op_kind": "pure"},
        {"$kind": "defpolicy", "name": "com.acme/x@1", "rules": ["x"]},
        {"$kind": "defpolicy", "name": "com.acme/x@1", "rules": {}},
        {"$kind": "defpolicy", "name": "com.acme/x@1", "rules": [{"when": 1, "decision": "deny"}]},
        {"$kind": "defschema", "name": "com.acme/x@1"},
        {**WORKFLOW, "effects_emitted": [1]},
        {**WORKFLOW, "effects_emitted": None},
        {"$kind": "defmodule", "name": "com.acme/x@1", "abi": 7},
        {"$kind": "defmodule", "name": "com.acme/x@1", "abi": {"workflow": 7}},
        {"$kind": "defeffect", "name": "com.acme/x@1", "kind": 1},
        {"$kind": "defcap", "name": 3, "schema": 1},
        manifest(routing=3),
        manifest(routing={"subscriptions": [3], "events": 4}),
        manifest(ops=3, modules=3),
        manifest(module_bindings=3, authority=3),
        manifest(authority={"grants": [3]}),
        {"$kind": "manifest", "defaults": {"cap_grants": [3]}},
        [3],
        "text",
    ],
)
def test_rubbish_is_found_and_never_raises(document):
    """MO-15: the lowering leaves what it does not understand to the check, which names it."""
    sources = read_sources([document])
    assert sources.refused
    assert sources.manifest is None


RUBBISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("com.acme/x@1"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "hash", "record", "ref", "kind"]), inner)
    ),
    max_leaves=6,
)


def spoiled(value, chance, junk):
    """The value with one member, at a random depth, replaced by junk."""
    if chance.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return junk
    if isinstance(value, list):
        at = chance.randrange(len(value))
        return [spoiled(v, chance, junk) if i == at else v for i, v in enumerate(value)]
    at = chance.choice(sorted(value))
    return {k: spoiled(v, chance, junk) if k == at else v for k, v in value.items()}


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(sorted(ROWS)), st.randoms(use_true_random=False), RUBBISH)
def test_no_spoiled_source_raises(row, chance, junk):
    """MO-15: whatever stands where, reading sources answers with findings or a manifest."""
    sources = read_sources([spoiled(ROWS[row][0], chance, junk)])
    assert (sources.manifest is None) == sources.refused


@pytest.mark.clause("K-32", "K-34")
def test_a_tick_output_in_older_words():
    """MO-02: effect `kind`, `params_cbor`, `correlation_id` and `events` are lowered."""
    older = {
        "state": None,
        "events": [{"schema": "com.acme/E@1", "value": b"v"}],
        "effects": [{"kind": "timer.set", "params_cbor": b"p", "correlation_id": "c"}],
    }
    newer = {
        "state": None,
        "domain_events": [{"schema": "com.acme/E@1", "value": b"v"}],
        "effects": [{"effect": "sys/timer.set@1", "params": b"p", "issuer_ref": "c"}],
    }
    assert lower_output(older, effect_kinds()) == newer
    assert lower_output(newer, effect_kinds()) == newer


@pytest.mark.clause("K-34")
def test_a_tick_output_in_both_words_keeps_the_older_for_the_refusal():
    """MO-02: two spellings of one field are not reconciled; the envelope check refuses them."""
    both = {"events": [], "domain_events": [], "effects": [{"kind": "a", "effect": "b/c@1"}, 3]}
    assert lower_output(both, {}) == both
    assert lower_output({"effects": [{"kind": 5}]}, {}) == {"effects": [{"effect": 5}]}
    assert lower_output({"effects": 3}, {}) == {"effects": 3}
