"""The catalogue: a manifest with everything it names resolved, compiled and frozen."""

# tidy: one table of cases per rule, kept beside the test that reads it.

from __future__ import annotations

import copy
import dataclasses

import pytest

from tallystick.errors import BadDefinition
from tallystick.model.catalogue import Catalogue, grant_hash
from tallystick.model.catalogue_build import is_key
from tallystick.model.definitions import canonical, definition_hash
from tallystick.model.limits import Limits
from tallystick.model.manifest import canonical_manifest, manifest_hash
from tallystick.model.sys_definitions import SUBSCRIPTIONS, of_kind
from tallystick.values import canon

H = "sha256:" + "11" * 32
KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
TEXT = {"text": {}}


def schema(name, type_):
    return {"$kind": "defschema", "name": f"com.acme/{name}@1", "type": type_}


def module(name, runtime, **more):
    return {"$kind": "defmodule", "name": f"com.acme/{name}@1", "runtime": runtime, **more}


def call(entry, name="keys"):
    return {"module": f"com.acme/{name}@1", "entrypoint": entry}


PURE = {"input": "com.acme/Created@1", "output": "com.acme/Id@1"}
DEFINITIONS = {
    "created": schema("Created", {"record": {"id": TEXT, "n": {"nat": {}}}}),
    "event": schema(
        "Event",
        {
            "variant": {
                "Created": {"ref": "com.acme/Created@1"},
                "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
            }
        },
    ),
    "state": schema(
        "State",
        {"record": {"phase": {"variant": {"New": {"unit": {}}}}, "note": {"option": TEXT}}},
    ),
    "id": schema("Id", TEXT),
    "cap_params": schema("PrintCap", {"record": {"queues": {"option": {"set": TEXT}}}}),
    "orders": module(
        "orders", {"kind": "python", "artifact": {"kind": "python_bundle", "root_hash": H}}
    ),
    "keys": module(
        "keys",
        {"kind": "wasm", "artifact": {"kind": "wasm_module", "hash": H}},
        pure=dict.fromkeys(("id_of", "up", "state_1_2", "may_print"), PURE),
    ),
    "outside": module("outside", {"kind": "external"}),
    "flow": {
        "$kind": "defworkflow",
        "name": "com.acme/order.flow@1",
        "state": "com.acme/State@1",
        "event": "com.acme/Event@1",
        "context": "sys/WorkflowContext@1",
        "key_schema": "com.acme/Id@1",
        "effects_emitted": ["com.acme/charge@1", "sys/timer.set@1"],
        "cap_slots": {"pay": "http.out"},
        "limits": {"effects_max": 8},
        "state_version": 2,
        "metadata": {"tags": ["billing"]},
        "impl": call("orders:flow", "orders"),
    },
    "charge": {
        "$kind": "defeffect",
        "name": "com.acme/charge@1",
        "params": "com.acme/Created@1",
        "receipt": "com.acme/Id@1",
        "progress": "com.acme/Id@1",
        "cap_type": "http.out",
        "timeout_ns": 5,
        "impl": call("payments", "outside"),
    },
    "cap": {
        "$kind": "defcap",
        "name": "com.acme/print@1",
        "cap_type": "print",
        "params": "com.acme/PrintCap@1",
        "enforcer": call("may_print"),
        "order": {"queues": "subset"},
    },
    "policy": {
        "$kind": "defpolicy",
        "name": "com.acme/main@1",
        "rules": [{"id": "all", "decision": "allow"}],
    },
    "secret": {"$kind": "defsecret", "name": "pay/key@1", "binding_id": "env:KEY"},
    "upcast": {
        "$kind": "defupcast",
        "name": "com.acme/up@1",
        "from": "com.acme/Id@1",
        "to": "com.acme/Created@1",
        "impl": call("up"),
    },
    "migration": {
        "$kind": "defmigration",
        "name": "com.acme/m@1",
        "workflow": "com.acme/order.flow@1",
        "from": 1,
        "to": 2,
        "impl": call("state_1_2"),
    },
}
GRANTS = [
    {"name": "pay_api", "cap": "sys/http.out@1", "params": {"hosts": ["b", "a"]}},
    {"name": "plain", "cap": "sys/effect@1", "expires_ns": 9},
]
MANIFEST = {
    "routing": {
        "subscriptions": [
            {
                "event": "com.acme/Created@1",
                "workflow": "com.acme/order.flow@1",
                "key_field": "id",
                "create_if_missing": False,
                "filter": {"origin": ["external"], "tags": ["eu"]},
                "init_state": {"phase": "New"},
            },
            {
                "event": "com.acme/Created@1",
                "workflow": "com.acme/order.flow@1",
                "key_fn": call("id_of"),
                "init_fn": call("up"),
            },
        ]
    },
    "module_bindings": {"com.acme/order.flow@1": {"slots": {"pay": "pay_api"}}},
    "authority": {
        "grants": GRANTS,
        "policies": ["com.acme/main@1"],
        "flows": [{"name": "f", "rate": {"count": 1, "per_ns": 5}}],
        "budgets": [{"name": "b", "unit": "calls", "limit": 3}],
    },
    "limits": {"fuel": 500},
    "trust": {"executors": [{"executors": ["payments"], "effects": [], "public_key": KEY}]},
}


def load(definitions=DEFINITIONS, source=MANIFEST):
    made = [canonical(d) for d in definitions.values()]
    manifest = canonical_manifest(made, source)
    return Catalogue.load(manifest, {definition_hash(d): d for d in made}.__getitem__)


@pytest.mark.clause("K-03")
def test_a_workflow_is_resolved():
    """K-03, K-33: schemas compiled, defaults filled, limits merged, arms by schema."""
    flow = load().workflows["com.acme/order.flow@1"]
    assert flow.hash_text == definition_hash(DEFINITIONS["flow"])
    assert flow.hash == canon.raw_of(flow.hash_text)
    assert flow.state.name == "com.acme/State@1"
    assert flow.event.name == flow.event_name == "com.acme/Event@1"
    assert flow.key is not None
    assert flow.key.name == "com.acme/Id@1"
    assert flow.context is True
    assert flow.annotations is None
    assert flow.effects_emitted == {"com.acme/charge@1", "sys/timer.set@1"}
    assert (flow.lifecycle, flow.determinism, flow.on_fault) == ("process", "strict", "fail")
    assert (flow.state_version, flow.accepts_state_versions) == (2, ())
    assert flow.arms == {
        "com.acme/Created@1": "Created",
        "sys/EffectReceiptEnvelope@1": "Receipt",
    }
    assert (flow.module, flow.module_runtime, flow.entrypoint) == (
        "com.acme/orders@1",
        "python",
        "orders:flow",
    )
    assert flow.module_hash == canon.raw_of(definition_hash(DEFINITIONS["orders"]))
    assert (flow.limits.effects_max, flow.limits.fuel) == (8, 500)
    assert flow.tags == ("billing",)
    assert flow.cap_slots == {"pay": "http.out"}
    assert flow.reads == frozenset()


@pytest.mark.clause("K-03", "K-04")
def test_effects_are_resolved_ours_included():
    """K-04: an external effect is bound by its entrypoint; ours are ambient."""
    effects = load().effects
    charge = effects["com.acme/charge@1"]
    assert (charge.runtime, charge.executor, charge.entrypoint) == (
        "external",
        "payments",
        "payments",
    )
    assert charge.error.name == "sys/EffectError@1"
    assert charge.progress is not None
    assert (charge.timeout_ns, charge.cap_type) == (5, "http.out")
    assert charge.module_hash_text == definition_hash(DEFINITIONS["outside"])
    timer = effects["sys/timer.set@1"]
    assert (timer.runtime, timer.executor, timer.cap_type) == ("builtin", "timer.set", "timer")
    assert timer.module_hash_text == (
        "sha256:958bbd0079c9768712e79317788745e84b98c8d93b42f7e4140e4908f2c6d936"
    )
    assert effects["sys/telemetry.emit@1"].cap_type == "effect"


@pytest.mark.clause("K-30", "X-01")
def test_subscriptions_keep_order_and_admit_their_initial_state():
    """MO-16 (parse): filters, keys and first states, in manifest order."""
    first, second, *ours = load().subscriptions
    assert [row.workflow for row in ours] == [row["workflow"] for row in SUBSCRIPTIONS]
    assert (first.key_field, first.key_fn) == ("id", None)
    assert (first.origins, first.tags) == (("external",), ("eu",))
    assert first.create_if_missing is False
    assert first.init_state is not None
    assert first.init_state.value == {"phase": {"$tag": "New"}, "note": None}
    assert second.key_fn == ("com.acme/keys@1", "id_of")
    assert second.init_fn == ("com.acme/keys@1", "up")
    assert (second.create_if_missing, second.init_state) == (True, None)


@pytest.mark.clause("K-29")
def test_grants_are_canonical_and_hashed():
    """06 section 2: grant params are admitted, the hash covers what is allowed, not the name."""
    catalogue = load()
    pay, plain = catalogue.grants["pay_api"], catalogue.grants["plain"]
    assert pay.params["hosts"] == ["a", "b"]
    assert pay.params["ports"] is None
    assert pay.enforcer == ("sys/caps@1", "http_out")
    assert pay.order["hosts"] == "host"
    assert (plain.cap_type, plain.params, plain.expires_ns) == ("effect", {}, 9)
    assert plain.hash == canon.digest(
        {"cap_hash": canon.text_of(plain.cap_hash), "params": {}, "expires_ns": 9}
    )
    child = grant_hash(plain.cap_hash, {}, None, plain.hash)
    assert child == canon.digest(
        {
            "cap_hash": canon.text_of(plain.cap_hash),
            "params": {},
            "parent": canon.text_of(plain.hash),
        }
    )
    assert catalogue.bindings == {"com.acme/order.flow@1": {"pay": "pay_api"}}


@pytest.mark.clause("K-03")
def test_the_rest_is_there():
    """K-03: policies, secrets, upcasts, migrations, flows, trust, limits, hash."""
    catalogue = load()
    assert [p.name for p in catalogue.policies] == ["com.acme/main@1"]
    assert catalogue.policies[0].rules == ({"id": "all", "decision": "allow"},)
    assert catalogue.secrets["pay/key@1"]["binding_id"] == "env:KEY"
    assert catalogue.upcasts["com.acme/Id@1"].to == "com.acme/Created@1"
    assert catalogue.migrations["com.acme/order.flow@1", 1].to == 2
    assert catalogue.flows[0]["name"] == "f"
    assert catalogue.budgets[0]["limit"] == 3
    assert catalogue.trust[0].public_key == bytes.fromhex(KEY)
    assert catalogue.trust[0].executors == ("payments",)
    assert catalogue.limits.fuel == 500
    assert catalogue.modules["com.acme/keys@1"].pure["up"] == tuple(PURE.values())
    assert catalogue.modules["com.acme/orders@1"].artifact == H
    assert catalogue.modules["com.acme/outside@1"].artifact is None
    assert catalogue.caps["com.acme/print@1"].enforcer == ("com.acme/keys@1", "may_print")
    assert catalogue.hash_text == manifest_hash(catalogue.manifest)
    assert catalogue.hash == canon.raw_of(catalogue.hash_text)


@pytest.mark.clause("K-03")
def test_an_empty_manifest_still_has_ours():
    """01 section 1: `sys/` definitions are ambient, and only they are wired."""
    catalogue = load({}, {})
    assert "sys/http.request@1" in catalogue.effects
    assert "sys/effect@1" in catalogue.caps
    assert "sys/WorkflowContext@1" in catalogue.schemas
    assert set(catalogue.workflows) == set(of_kind("defworkflow"))
    assert not catalogue.grants
    assert catalogue.limits == Limits()


@pytest.mark.clause("K-31")
def test_an_event_that_is_a_record_has_no_arms():
    """K-31: a record event is delivered as it is, so there is nothing to wrap."""
    flow = load(*changed("flow", event="com.acme/Created@1")).workflows["com.acme/order.flow@1"]
    assert flow.arms == {}


def test_parts_are_frozen():
    """ST style: a catalogue is a value."""
    flow = load().workflows["com.acme/order.flow@1"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        flow.name = "other"


def changed(part, **fields):
    definitions = copy.deepcopy(DEFINITIONS)
    definitions[part] |= fields
    return definitions, MANIFEST


def without(part):
    return {k: d for k, d in DEFINITIONS.items() if k != part}, MANIFEST


def wired(**sections):
    return DEFINITIONS, {**MANIFEST, **sections}


def subscription(**more):
    row = {"event": "com.acme/Created@1", "workflow": "com.acme/order.flow@1", **more}
    return wired(routing={"subscriptions": [row]})


def grants(**grant):
    return wired(authority={"grants": [{"name": "g", "cap": "com.acme/print@1", **grant}]})


WRONG = {
    "state": (changed("flow", state="com.acme/Stat@1"), "ref.schema"),
    "event": (changed("flow", event="com.acme/Nope@1"), "ref.schema"),
    "scalar event": (changed("flow", event="com.acme/Id@1"), "workflow.bad_event"),
    "inline arm": (
        changed("event", type={"variant": {"A": {"unit": {}}}}), "workflow.bad_event",
    ),
    "arm twice": (
        changed("event", type={"variant": {t: {"ref": "com.acme/Id@1"} for t in "AB"}}),
        "workflow.bad_event",
    ),
    "option key": (
        changed("id", type={"record": {"a": {"option": TEXT}}}), "workflow.bad_key_schema",
    ),
    "list key": (changed("id", type={"list": TEXT}), "workflow.bad_key_schema"),
    "limit": (changed("flow", limits={"fuel": 501}), "workflow.limit_too_high"),
    "no module": (changed("flow", impl=call("x", "gone")), "ref.module"),
    "pure module": (changed("flow", impl=call("up")), "workflow.pure_module"),
    "external module": (changed("flow", impl=call("x", "outside")), "module.bad_runtime"),
    "effect module": (changed("charge", impl=call("x", "gone")), "ref.module"),
    "effect params": (changed("charge", params="com.acme/Nope@1"), "ref.schema"),
    "cap params": (changed("cap", params="com.acme/Nope@1"), "ref.schema"),
    "enforcer": (changed("cap", enforcer=call("gone")), "module.no_entrypoint"),
    "enforcer module": (changed("cap", enforcer=call("x", "gone")), "ref.module"),
    "upcast not pure": (changed("upcast", impl=call("x", "orders")), "upcast.not_pure"),
    "upcast to": (changed("upcast", to="com.acme/Nope@1"), "ref.schema"),
    "upcast twice": (
        ({**DEFINITIONS, "again": {**DEFINITIONS["upcast"], "name": "com.acme/up@2"}}, MANIFEST),
        "schema.upcast_ambiguous",
    ),
    "migration of nothing": (changed("migration", workflow="com.acme/w@1"), "ref.workflow"),
    "migration entry": (changed("migration", impl=call("gone")), "module.no_entrypoint"),
    "policy": (without("policy"), "ref.policy"),
    "workflow": (without("flow"), "ref.workflow"),
    "subscribed event": (subscription(event="com.acme/Nope@1"), "ref.schema"),
    "subscribed workflow": (subscription(workflow="com.acme/Nope@1"), "ref.workflow"),
    "key_fn": (subscription(key_fn=call("gone")), "module.no_entrypoint"),
    "init_state": (subscription(init_state={"phase": "Old"}), "routing.bad_init"),
    "grant cap": (grants(cap="com.acme/Nope@1"), "ref.cap"),
    "grant params": (grants(params={"hosts": []}), "cap.bad_params"),
    "grant of effect": (grants(cap="sys/effect@1", params={"a": 1}), "cap.bad_params"),
    "recursive schema": (changed("id", type={"ref": "com.acme/Id@1"}), "schema.recursive"),
}  # fmt: skip


@pytest.mark.clause("K-07", "X-01")
@pytest.mark.parametrize("case", WRONG)
def test_what_could_not_run_is_refused_with_its_code(case):
    """MO-15 (at load), MO-09 (pure module): one fault planted in a good bundle, its own code."""
    (definitions, source), code = WRONG[case]
    with pytest.raises(BadDefinition) as caught:
        load(definitions, source)
    assert caught.value.code == code
    assert caught.value.where["path"]


def test_a_node_of_another_name_is_refused():
    """K-03: a hash that leads to another definition is `ref.hash_mismatch`."""
    manifest = canonical_manifest([canonical(DEFINITIONS["id"])], {})
    with pytest.raises(BadDefinition) as caught:
        Catalogue.load(manifest, lambda _hash: canonical(DEFINITIONS["state"]))
    assert caught.value.code == "ref.hash_mismatch"


@pytest.mark.clause("K-33")
@pytest.mark.parametrize(
    ("type_", "good"),
    [
        *[({word: {}}, True) for word in ("int", "nat", "text", "uuid", "hash")],
        *[({word: {}}, False) for word in ("bool", "bytes", "dec128", "time", "json", "unit")],
        ({"record": {"a": TEXT, "b": {"where": {"type": TEXT, "max_len": 3}}}}, True),
        ({"where": {"type": TEXT, "max_len": 3}}, True),
        ({"record": {"a": {"record": {}}}}, False),
        ({"option": TEXT}, False),
    ],
)
def test_which_types_are_keys(type_, good):
    """02 section 2: a key is of int nat text uuid hash, or a record of these."""
    assert is_key(type_) is good


# ---- limits ---------------------------------------------------------------------------------


@pytest.mark.clause("X-03")
def test_the_limits_of_the_table():
    """02 section 3: every limit and its default."""
    mib = 1024 * 1024
    assert dataclasses.asdict(Limits()) == {
        "fuel": 1_000_000, "effects_max": 64, "events_max": 256, "output_bytes_max": mib,
        "state_bytes_max": mib, "inflight_max": 1_024, "idempotency_window": 86_400 * 10**9,
        "mailbox_max": 65_536, "event_bytes_max": mib, "params_bytes_max": mib,
        "receipt_bytes_max": mib, "keys_max": 65_536, "hops_max": 1_000, "logs_max": 64,
        "metrics_max": 64, "memory_bytes": 64 * mib, "history_max": 10_000, "inbox_max": 1_024,
    }  # fmt: skip


@pytest.mark.clause("X-03")
@pytest.mark.parametrize(
    "given",
    [{"fule": 1}, {"fuel": 0}, {"fuel": True}, {"fuel": "1"}, {"event_bytes_max": 2**24 + 1}],
)
def test_an_impossible_limit_is_refused(given):
    """X-03: unknown names, non-numbers and more than a document holds."""
    with pytest.raises(BadDefinition):
        Limits.of(given)


@pytest.mark.clause("X-03")
def test_a_workflow_may_only_narrow():
    """02 section 2: an override is at most the manifest's value."""
    base = Limits.of({"fuel": 10, "event_bytes_max": 2**24})
    assert base.narrowed({"fuel": 10}).fuel == 10
    assert base.narrowed({"fuel": 9}) == dataclasses.replace(base, fuel=9)
    with pytest.raises(BadDefinition) as caught:
        base.narrowed({"fuel": 11})
    assert caught.value.code == "workflow.limit_too_high"
    assert caught.value.where["path"] == "/limits/fuel"
