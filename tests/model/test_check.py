"""The bundle checker: every code from a smallest bad bundle, none from a good one."""

# tidy: one table of cases per rule, kept beside the test that reads it.

from __future__ import annotations

import copy
import json
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.authority.policy import policy_findings
from tallystick.errors import BadDefinition
from tallystick.model.bundle import build_bundle, from_members, make_bundle
from tallystick.model.bundle_authority import structural_authority
from tallystick.model.check import check, check_bundle, shown
from tallystick.model.check_routing import type_at
from tallystick.model.check_schemas import _leads_into
from tallystick.model.manifest_sources import read_sources
from tests.model.acme import (
    ARTIFACTS,
    GOOD,
    NAT,
    TEXT,
    altered,
    catalogue_of,
    changed,
    errors_in,
    found_in,
    named,
    schema,
    subscribed,
)

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "model" / "bad_bundles.json"
TABLE = json.loads(GOLDEN.read_text("utf-8"))

# 02 section 7 as it is written, with `schema.*` of 01 section 4, `legacy.*` of 02 section 4 and
# `bundle.*` of 02 section 3 spelt out; `bundle.unsigned` is a judgement of governance (06).
SECTION_7 = """
def.bad_name def.unknown_kind def.unknown_field def.duplicate def.reserved
ref.schema ref.module ref.workflow ref.effect ref.cap ref.policy ref.secret
ref.hash_mismatch ref.unlisted
schema.unknown_type schema.unknown_ref schema.recursive schema.ambiguous_option schema.bad_map_key
schema.bad_bound schema.bad_name schema.empty_variant schema.unsupported
schema.not_additive schema.upcast_ambiguous
workflow.bad_event workflow.bad_key_schema workflow.bad_context workflow.limit_too_high
workflow.pure_module workflow.effect_unknown
module.no_artifact module.no_entrypoint module.requirement_mismatch module.bad_runtime
routing.no_key routing.unexpected_key routing.key_path routing.key_type
routing.not_deliverable routing.ambiguous_target routing.reserved_event routing.bad_init
cap.unbound cap.type_mismatch cap.bad_params policy.unreachable policy.bad_expression
trust.bad_key trust.duplicate_key
migration.gap upcast.not_pure
legacy.defplan legacy.triggers legacy.inboxes legacy.plan_record legacy.mixed_versions
bundle.incomplete bundle.extra bundle.hash_mismatch
workflow.no_receipt_arm effect.no_timeout routing.unreachable_workflow schema.unused legacy.note
"""
WARNINGS = SECTION_7.split()[-5:]


FLOW = named("flow@1")


# ---- the table ------------------------------------------------------------------------------


@pytest.mark.clause("K-07", "X-01")
def test_the_table_has_every_code():
    """MO-15: no code of section 7 is without its smallest bad bundle, and none is invented."""
    assert sorted(TABLE) == sorted(SECTION_7.split())


@pytest.mark.clause("K-07", "X-01", "X-19")
@pytest.mark.parametrize("code", [code for code in TABLE if "members" not in TABLE[code]])
def test_a_smallest_bad_bundle(code):
    """MO-15: its own code at its own place, with a hint, and no other error."""
    row = TABLE[code]
    artifacts = row.get("artifacts")
    if artifacts is not None:
        artifacts = {text: bytes.fromhex(data) for text, data in artifacts.items()}
    found = found_in(row["documents"], row.get("against"), artifacts)
    (hit,) = [f for f in found if f.code == code]
    assert (hit.def_name, hit.path) == (row["def"], row["path"])
    assert hit.message
    assert hit.hint
    assert hit.warning == (code in WARNINGS)
    assert [f.code for f in found if f.code not in (code, "legacy.note")] == []


@pytest.mark.clause("X-19")
@pytest.mark.parametrize("code", [code for code in TABLE if "members" in TABLE[code]])
def test_a_smallest_broken_bundle(code):
    """MO-15, MO-14: the bundle codes come from members that do not hash or do not belong."""
    members = {path: bytes.fromhex(data) for path, data in TABLE[code]["members"].items()}
    with pytest.raises(BadDefinition) as caught:
        from_members(members)
    assert (caught.value.code, caught.value.where["path"]) == (code, TABLE[code]["path"])
    assert caught.value.hint


# ---- the good one ---------------------------------------------------------------------------


@pytest.mark.clause("K-07", "X-01")
def test_a_good_bundle_has_no_finding():
    """MO-15: no error and no warning, as sources, as a bundle, and against itself."""
    assert found_in(changed(), None, ARTIFACTS) == []
    made = build_bundle(changed(), ARTIFACTS)
    assert check_bundle(made, made.catalogue(), policies=policy_findings) == []


@pytest.mark.clause("X-24")
def test_structural_authority_passes_the_check():
    """X-24: what `--authority structural` writes leaves nothing unbound."""
    manifest = {k: v for k, v in GOOD["manifest"].items()
                if k not in ("authority", "module_bindings")}  # fmt: skip
    bare = read_sources(changed(manifest=manifest))
    assert {f.code for f in check(bare)} == {"cap.unbound"}
    assert check(structural_authority(bare), policies=policy_findings) == []


def test_a_finding_as_it_is_shown():
    """02 section 7: `{code, def, path, message, hint}`."""
    (found,) = check(read_sources([{"$kind": "defpolicy", "name": "Order"}]))
    assert list(shown(found)) == ["code", "def", "path", "message", "hint"]
    assert shown(found)["def"] == "Order"


# ---- keys -----------------------------------------------------------------------------------

NOTE = schema("Note@1", {"record": {"note_id": TEXT}})
EVENTS = {
    "wrapped arm": ("Note@1", "$value.note_id", None),
    "arm": ("Note@1", "note_id", None),
    "other arm, wrapped": ("Other@1", "$value.note_id", "routing.key_path"),
    "other arm": ("Other@1", "note_id", "routing.key_path"),
    "whole variant, one arm lacks it": ("Both@1", "$value.note_id", "routing.key_path"),
    "whole variant, not entered": ("Both@1", "note_id", "routing.key_path"),
    "whole variant, other type": ("Both@1", "$value.n", "routing.key_type"),
    "through an option": ("Other@1", "maybe.note_id", "routing.key_path"),
    "an option": ("Other@1", "may", "routing.key_type"),
    "into a scalar": ("Note@1", "note_id.x", "routing.key_path"),
    "into an inner variant": ("Other@1", "inner.$value.note_id", None),
    "into an inner variant without it": ("Other@1", "inner.$value.b", "routing.key_path"),
}


@pytest.mark.clause("K-33")
@pytest.mark.parametrize("case", EVENTS)
def test_key_paths_through_variants(case):
    """MO-17: `$value.note_id` is taken for a variant, refused where the subscribed arm lacks it."""
    event, path, code = EVENTS[case]
    inner = {"variant": {"A": {"record": {"note_id": TEXT, "b": TEXT}},
                         "B": {"record": {"note_id": TEXT}}}}  # fmt: skip
    other = schema("Other@1", {"record": {"n": NAT, "may": {"option": TEXT}, "inner": inner,
        "maybe": {"option": {"record": {"note_id": TEXT}}}}})  # fmt: skip
    note = schema("Note@1", {"record": {"note_id": TEXT, "n": NAT}})
    both = schema(
        "Both@1",
        {
            "variant": {
                "Note": {"ref": named("Note@1")},
                "Other": {"ref": named("Other@1")},
                "Done": {"ref": "sys/WorkflowCompleted@1"},
            }
        },
    )
    flow = {**GOOD["plain"], "event": named("Both@1"), "key_schema": named("Id@1")}
    row = {"event": named(event), "workflow": named("plain@1"), "key_field": path}
    manifest = {"$kind": "manifest", "routing": {"subscriptions": [row]}}
    parts = [note, other, both, flow, manifest, GOOD["id"], GOOD["state"], GOOD["orders"]]
    found = errors_in(parts)
    place = "/routing/subscriptions/0/key_field"
    if code is None:
        assert found == []
    else:
        assert {*found} == {(code, "manifest", place)}


@pytest.mark.clause("K-33")
def test_a_type_at_a_path():
    """MO-17: bounds are looked through, a path of several types is none."""
    one = {"where": {"type": {"record": {"a": TEXT}}, "max_len": 3}}
    assert type_at(one, ["a"]) == TEXT
    two = {"variant": {"A": {"record": {"a": TEXT}}, "B": {"record": {"a": NAT}}}}
    assert type_at(two, ["$value", "a"]) is None


# ---- against the active bundle --------------------------------------------------------------


@pytest.mark.clause("X-20")
def test_an_additive_change_passes():
    """X-20: a new option is taken under the same name, a changed type is not."""
    wider = {"record": {"id": TEXT, "why": {"option": TEXT}}}
    assert errors_in(altered("noted", type=wider), changed()) == []
    found = errors_in(altered("noted", type={"record": {"id": TEXT, "why": TEXT}}), changed())
    assert found == [("schema.not_additive", named("Noted@1"), "/type/record/why")]


@pytest.mark.clause("X-21")
def test_state_keeps_a_way():
    """X-21: a version back, or another state under the same version, is a gap."""
    back = altered("flow", state_version=3, accepts_state_versions=[])
    assert ("migration.gap", FLOW, "/state_version") in errors_in(back, changed())
    other = schema("Other@1", {"record": {"a": TEXT}})
    moved = [*altered("plain", state=named("Other@1")), other]
    assert errors_in(moved) == []
    assert errors_in(moved, changed()) == [("migration.gap", named("plain@1"), "/state_version")]
    # `flow` begins with the old state by the manifest, so only `plain` may move.
    same = [*altered("plain", state=named("Same@1")), {**GOOD["state"], "name": named("Same@1")}]
    assert errors_in(same, changed()) == []


@pytest.mark.clause("X-24", "X-21")
def test_rules_may_name_what_was_active():
    """06 section 9: pinned cells still ask under old names, so a rule may know them."""
    rules = [{"when": {"workflow": named("was@1")}, "decision": "deny"}]
    was = {**GOOD["plain"], "name": named("was@1")}
    assert errors_in(altered("policy", rules=rules), [*changed(), was]) == []
    assert [code for code, _, _ in errors_in(altered("policy", rules=rules), changed())] == [
        "ref.workflow"
    ]


# ---- whatever stands where ------------------------------------------------------------------


def places(value, path=()):
    """Every path of a nested value."""
    yield path
    inner = value if isinstance(value, dict) else ()
    for key in range(len(value)) if isinstance(value, list) else inner:
        yield from places(value[key], (*path, key))


def put(value, path, new):
    if not path:
        return new
    made = copy.copy(value)
    made[path[0]] = put(value[path[0]], path[1:], new)
    return made


def at(value, path):
    for key in path:
        value = value[key]
    return value


DOCUMENTS = changed()
ACTIVE = catalogue_of(DOCUMENTS)
PLACES = list(places(DOCUMENTS))


@pytest.mark.clause("K-07")
@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), min_size=1, max_size=2)
)
def test_what_passes_the_check_can_be_loaded(swaps):
    """MO-15: a part replaced by any other part never raises; without errors it also loads."""
    documents = DOCUMENTS
    for target, source in swaps:
        try:
            documents = put(documents, target, at(DOCUMENTS, source))
        except (LookupError, TypeError):
            continue  # an earlier swap took the place away
    sources = read_sources([documents])
    found = check(sources, ACTIVE, artifacts=ARTIFACTS, policies=policy_findings)
    assert all(f.hint and f.message for f in found)
    if all(f.warning for f in found):
        make_bundle(sources.definitions, sources.manifest, ARTIFACTS).catalogue()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [2**64, "\ud800", float("nan"), [[[[]] * 2]] * 2]
)  # fmt: skip
def test_data_that_cannot_be_encoded_is_named(value):
    """MO-15: free data inside a manifest has the bounds of canonical values."""
    deep = value
    for _ in range(60 if isinstance(value, list) else 1):
        deep = [deep]
    found = read_sources(subscribed(init_state={"x": deep})).findings
    if isinstance(value, list):
        assert [f.code for f in found] == ["def.bad_value"]
    else:
        assert "def.bad_value" in [f.code for f in found]


def test_a_source_without_end_is_named():
    """MO-15: a document nested a thousand deep is a finding, not a recursion error."""
    type_ = TEXT
    for _ in range(1_000):
        type_ = {"list": type_}
    assert [f.code for f in found_in([schema("X@1", type_)])] == ["def.bad_value"]


# ---- one mistake, one finding -----------------------------------------------------------------


@pytest.mark.clause("K-07")
def test_what_refers_to_a_broken_definition_is_not_blamed():
    """MO-15: a schema that cannot be read is told; those that hold it are not told besides."""
    found = errors_in(altered("noted", sizes=3))
    assert ("def.unknown_field", named("Noted@1")) in [each[:2] for each in found]
    assert "schema.unknown_ref" not in [code for code, _, _ in found]


def test_a_ring_of_upcasts_leads_nowhere():
    """X-20: looking for an arm behind upcasts ends, also where they lead back to themselves."""
    ring = {"a": "b", "b": "a"}
    assert not _leads_into(ring, "a", ["c"])
    assert _leads_into({**ring, "b": "c"}, "a", ["c"])
    assert not _leads_into({}, "a", ["c"])
