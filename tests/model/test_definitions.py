"""Definitions: one table per kind, one canonical form, all problems in one run."""

# tidy: one table of cases per rule, kept beside the test that reads it.

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import BadDefinition
from tallystick.model import definitions, manifest
from tallystick.model.definitions import KINDS, canonical, definition_hash, read_definition
from tallystick.model.definitions_shapes import ABSENT, REQUIRED, nearest, step  # type: ignore[attr-defined]
from tallystick.values import canon

GOLDEN = Path(__file__).parent.parent / "golden" / "model"
EXAMPLES = json.loads((GOLDEN / "examples.json").read_text("utf-8"))
PUBLISHED = json.loads((GOLDEN / "published.json").read_text("utf-8"))

IMPL = {"module": "com.acme/code@1", "entrypoint": "main"}
H = "sha256:" + "11" * 32

# The smallest good definition of each kind.
SMALLEST = {
    "defschema": {"type": {"record": {}}},
    "defmodule": {"runtime": {"kind": "external"}},
    "defworkflow": {
        "state": "com.acme/S@1",
        "event": "com.acme/E@1",
        "effects_emitted": [],
        "impl": IMPL,
    },
    "defeffect": {"params": "com.acme/P@1", "receipt": "com.acme/R@1", "impl": IMPL},
    "defcap": {"cap_type": "print"},
    "defpolicy": {},
    "defsecret": {"binding_id": "env:KEY"},
    "defupcast": {"from": "com.acme/E@1", "to": "com.acme/E@2", "impl": IMPL},
    "defmigration": {"workflow": "com.acme/w@1", "from": 1, "to": 2, "impl": IMPL},
}


def smallest(kind, **more):
    return {"$kind": kind, "name": "com.acme/thing@1", **SMALLEST[kind], **more}  # type: ignore[dict-item]


def codes(raw):
    return [(f.code, f.path) for f in read_definition(raw)[1]]


@pytest.mark.clause("K-03")
@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row["definition"]["name"])
def test_every_example_of_the_design_is_its_own_canonical_form(row):
    """MO-01: each example of 02 section 2 loads, lowers to itself and has its golden hash."""
    assert canonical(row["definition"]) == row["definition"]
    assert definition_hash(canonical(row["definition"])) == row["hash"]


@pytest.mark.clause("K-03")
def test_the_examples_show_every_kind():
    """MO-01: no kind of definition is without an example."""
    assert {row["definition"]["$kind"] for row in EXAMPLES} == set(KINDS)


@pytest.mark.clause("K-03", "K-14")
@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["definition"]["name"])
def test_published_definitions_keep_their_hash(row):
    """MO-01, MO-05: the literals of 02 section 5 and 01 section 2 hash as published."""
    assert definition_hash(canonical(row["definition"], ours=True)) == row["hash"]


DEFAULTED = [
    (kind, field, row.default)
    for kind, table in KINDS.items()
    for field, row in table.items()
    if row.default is not REQUIRED and row.default is not ABSENT
]


@pytest.mark.clause("D3")
@pytest.mark.parametrize(("kind", "field", "default"), DEFAULTED)
def test_an_explicit_default_changes_no_hash(kind, field, default):
    """MO-04: absent and explicit default give one hash, for every defaulted field."""
    base = {k: v for k, v in smallest(kind).items() if k != field}
    assert definition_hash(canonical({**base, field: default})) == definition_hash(canonical(base))


@pytest.mark.clause("D3")
def test_no_defaulted_field_is_forgotten():
    """MO-04: the generated test covers each default the tables of 02 section 2 print."""
    named = {(kind, field): default for kind, field, default in DEFAULTED}
    assert named["defworkflow", "determinism"] == "strict"
    assert named["defworkflow", "on_fault"] == "fail"
    assert named["defworkflow", "lifecycle"] == "process"
    assert named["defworkflow", "state_version"] == 1
    for field in ("reads", "accepts_state_versions"):
        assert named["defworkflow", field] == []
    for field in ("cap_slots", "limits", "metadata"):
        assert named["defworkflow", field] == {}
    assert named["defeffect", "error"] == "sys/EffectError@1"
    assert named["defeffect", "cap_type"] == "effect"
    assert named["defeffect", "idempotent"] is False
    assert named["defeffect", "pure"] is False


@pytest.mark.clause("D3")
@pytest.mark.parametrize(
    ("plain", "spelled"),
    [
        (
            smallest("defpolicy", rules=[{"decision": "deny"}]),
            smallest(
                "defpolicy",
                rules=[{"when": {"tags": [], "origin": "workflow"}, "decision": "deny"}],
            ),
        ),
        (
            smallest(
                "defpolicy", rules=[{"decision": "require_approval", "approval": {"by": ["a"]}}]
            ),
            smallest(
                "defpolicy",
                rules=[{"decision": "require_approval", "approval": {"by": ["a"], "count": 1}}],
            ),
        ),
        (
            smallest("defworkflow"),
            smallest("defworkflow", metadata={"summary": "", "tags": [], "owners": []}),
        ),
        (smallest("defworkflow"), smallest("defworkflow", context=None, key_schema=None)),
        (smallest("defeffect"), smallest("defeffect", timeout_ns=None, progress=None)),
    ],
)
def test_nested_defaults_and_nulls_change_no_hash(plain, spelled):
    """MO-04: defaults inside rules and metadata go too, and null reads as absence."""
    assert canonical(spelled) == canonical(plain)


def test_false_is_not_taken_for_another_default():
    """MO-04: a value is only removed when it has the default's type, so 1 is not true."""
    assert codes(smallest("defeffect", pure=0)) == [("def.bad_value", "/pure")]
    assert canonical(smallest("defeffect", pure=True))["pure"] is True


@pytest.mark.clause("D3")
def test_comments_are_dropped_at_every_level():
    """02 section 1: `$comment` never reaches the canonical form."""
    typed = {"record": {"a": {"$comment": "x", "text": {}}, "$comment": "y"}, "$comment": "z"}
    assert canonical(smallest("defschema", type=typed, **{"$comment": "w"})) == smallest(
        "defschema", type={"record": {"a": {"text": {}}}}
    )
    flow = smallest("defworkflow", impl={**IMPL, "$comment": "who"}, limits={"$comment": "none"})
    assert canonical(flow) == smallest("defworkflow")
    slots = {"$comment": "c", "pay": "http.out"}
    assert canonical(smallest("defworkflow", cap_slots=slots))["cap_slots"] == {"pay": "http.out"}


WRONG = [
    ({"$kind": "defthing", "name": "a/b@1"}, "def.unknown_kind", "/$kind"),
    ({"name": "a/b@1"}, "def.unknown_kind", "/$kind"),
    ({**smallest("defcap"), "name": "Bad"}, "def.bad_name", "/name"),
    ({**smallest("defcap"), "name": None}, "def.bad_name", "/name"),
    ({**smallest("defcap"), "name": "sys/mine@1"}, "def.reserved", "/name"),
    (smallest("defcap", colour="red"), "def.unknown_field", "/colour"),
    (smallest("defcap", cap_type=""), "def.bad_value", "/cap_type"),
    (smallest("defcap", order={"a": "wider"}), "def.bad_value", "/order/a"),
    (smallest("defcap", order={"1": "max"}), "def.bad_name", "/order/1"),
    (smallest("defcap", order=[]), "def.bad_value", "/order"),
    (smallest("defcap", enforcer="x"), "def.bad_value", "/enforcer"),
    (smallest("defcap", enforcer={"module": IMPL["module"]}), "def.missing_field",
     "/enforcer/entrypoint"),
    ({"$kind": "defcap", "name": "a/b@1"}, "def.missing_field", "/cap_type"),
    (smallest("defschema", type={"record": {"a": None}}), "schema.unknown_type",
     "/type/record/a"),
    (smallest("defworkflow", context="com.acme/Ctx@1"), "workflow.bad_context", "/context"),
    (smallest("defworkflow", limits={"fule": 1}), "def.unknown_field", "/limits/fule"),
    (smallest("defworkflow", limits={"fuel": 0}), "def.bad_value", "/limits/fuel"),
    (smallest("defworkflow", limits=3), "def.bad_value", "/limits"),
    (smallest("defworkflow", limits={"state_bytes_max": 2**25}), "def.bad_value",
     "/limits/state_bytes_max"),
    (smallest("defworkflow", reads=[f"com.acme/w@{i + 1}" for i in range(17)]),
     "def.bad_value", "/reads"),
    (smallest("defworkflow", metadata={"summary": "x" * 201}), "def.bad_value",
     "/metadata/summary"),
    (smallest("defworkflow", metadata={"tags": ["x"] * 17}), "def.bad_value", "/metadata/tags"),
    (smallest("defworkflow", state_version=0), "def.bad_value", "/state_version"),
    (smallest("defworkflow", effects_emitted="all"), "def.bad_value", "/effects_emitted"),
    (smallest("defworkflow", effects_emitted=["timer.set"]), "def.bad_name",
     "/effects_emitted/0"),
    (smallest("defworkflow", determinism="maybe"), "def.bad_value", "/determinism"),
    (smallest("defpolicy", rules=[{"decision": "maybe"}]), "def.bad_value", "/rules/0/decision"),
    (smallest("defpolicy", rules=[{"decision": "deny", "when": {"who": "me"}}]),
     "def.unknown_field", "/rules/0/when/who"),
    (smallest("defmodule", runtime={"kind": "builtin"}), "module.bad_runtime", "/runtime/kind"),
    (smallest("defmodule", runtime={"kind": "ruby"}), "def.bad_value", "/runtime/kind"),
    (smallest("defmodule", runtime="wasm"), "def.bad_value", "/runtime"),
    (smallest("defmodule", runtime={"kind": "python"}), "module.no_artifact",
     "/runtime/artifact"),
    (smallest("defmodule", runtime={"kind": "wasm"}), "module.no_artifact", "/runtime/artifact"),
    (smallest("defmodule", runtime={"kind": "external", "artifact": {"kind": "x"}}),
     "module.bad_runtime", "/runtime"),
    (smallest("defmodule", runtime={"kind": "wasm", "artifact": {"kind": "python_bundle"}}),
     "module.bad_runtime", "/runtime/artifact"),
    (smallest("defmodule", runtime={"kind": "wasm", "python": "3.11",
                                    "artifact": {"kind": "wasm_module", "hash": H}}),
     "module.bad_runtime", "/runtime/python"),
    (smallest("defmodule", runtime={"kind": "wasm",
                                    "artifact": {"kind": "wasm_module", "hash": "sha256:1"}}),
     "def.bad_value", "/runtime/artifact/hash"),
    (smallest("defmodule", pure={"f": {"input": "com.acme/A@1"}}), "def.missing_field",
     "/pure/f/output"),
]  # fmt: skip


@pytest.mark.clause("K-03", "K-07")
@pytest.mark.parametrize(("raw", "code", "path"), WRONG)
def test_each_fault_is_named_at_its_path(raw, code, path):
    """MO-15 (single definitions): one planted fault, one finding, at exactly its path."""
    made, _ = read_definition(raw)
    assert made is None
    assert codes(raw) == [(code, path)]
    with pytest.raises(BadDefinition) as caught:
        canonical(raw)
    assert caught.value.code == code
    assert caught.value.where["path"] == path
    assert caught.value.exit_code == 2


def test_all_problems_come_in_one_run():
    """MO-15: a checker reports every fault of a definition, not the first."""
    raw = smallest("defworkflow", state="x", colour=1, determinism="maybe", state_version=-1)
    assert sorted(codes(raw)) == [
        ("def.bad_name", "/state"),
        ("def.bad_value", "/determinism"),
        ("def.bad_value", "/state_version"),
        ("def.unknown_field", "/colour"),
    ]


def test_an_unknown_field_offers_the_nearest():
    """MO-15: the hint offers the nearest name."""
    found = read_definition(smallest("defeffect", timeout=5))[1]
    assert found[0].hint == "did you mean timeout_ns?"
    assert nearest("zzz", ["abc"]) == ""


def test_paths_are_rfc_6901():
    """K-09: `/` and `~` in a member are escaped."""
    assert step("/pure", "a/b~c") == "/pure/a~1b~0c"


@pytest.mark.clause("D3")
@settings(deadline=None, max_examples=60)
@given(st.sampled_from(EXAMPLES), st.randoms(use_true_random=False))
def test_the_order_of_fields_never_matters(row, chance):
    """MO-01: any order of an example's fields gives its golden hash."""
    keys = list(row["definition"])
    chance.shuffle(keys)
    assert definition_hash(canonical({key: row["definition"][key] for key in keys})) == row["hash"]


# ---- the manifest ---------------------------------------------------------------------------


def manifest_of(**sections):
    made, found = manifest.assemble([], {"$kind": "manifest", **sections})
    assert made is not None, found
    return made


@pytest.mark.clause("D3")
@pytest.mark.parametrize(
    "spelled",
    [
        {"air_version": "2"},
        {"caps": [], "policies": [], "routing": {"subscriptions": []}},
        {"limits": {"fuel": 1_000_000, "effects_max": 64}},
        {"authority": {"grants": [], "policies": [], "flows": [], "budgets": []}},
        {"governance": {"principals": [], "rules": {"approvals": 1, "require": ["shadow"]}}},
        {"trust": {"executors": []}, "module_bindings": {"com.acme/w@1": {"slots": {}}}},
        {"effects": ["sys/timer.set@1"], "$comment": "ours are ambient"},
    ],
)
def test_an_empty_section_is_no_section(spelled):
    """MO-04: empty sections and default limits and rules leave no trace in the manifest."""
    assert manifest.manifest_hash(manifest_of(**spelled)) == manifest.manifest_hash(manifest_of())
    assert set(manifest_of()) == {
        "$kind", "air_version", "schemas", "modules", "workflows", "effects",
    }  # fmt: skip


def test_lists_are_sorted_and_pinned_and_subscriptions_keep_their_order():
    """K-30: definitions are sorted by name, subscriptions stay as written."""
    defs = [canonical({**smallest("defcap"), "name": n}) for n in ("com.acme/b@1", "com.acme/a@1")]
    rows = [{"event": f"com.acme/E@{i}", "workflow": "com.acme/w@1"} for i in (2, 1)]
    made, found = manifest.assemble(defs, {"routing": {"subscriptions": rows}})
    assert not found
    assert made["caps"] == [  # type: ignore[index]
        {"name": "com.acme/a@1", "hash": canon.hash(defs[1])},
        {"name": "com.acme/b@1", "hash": canon.hash(defs[0])},
    ]
    assert made["routing"]["subscriptions"] == rows  # type: ignore[index]


@pytest.mark.clause("K-07")
@pytest.mark.parametrize(
    ("source", "code", "path"),
    [
        ({"caps": ["com.acme/thong@1"]}, "ref.cap", "/caps/0"),
        ({"caps": ["com.acme/thing@1"] * 2}, "def.duplicate", "/caps/1"),
        ({"caps": [{"name": "com.acme/thing@1", "hash": H}]}, "ref.hash_mismatch", "/caps/0/hash"),
        ({"caps": [{"name": "sys/file@1", "hash": H}]}, "ref.hash_mismatch", "/caps/0/hash"),
        ({"limits": {"effects_max": -1}}, "def.bad_value", "/limits/effects_max"),
        ({"limits": 1}, "def.bad_value", "/limits"),
        ({"authority": {"budgets": [{"name": "b", "unit": "calls", "limit": -1}]}},
         "def.bad_value", "/authority/budgets/0/limit"),
        ({"air_version": "3"}, "def.bad_value", "/air_version"),
        ({"colour": 1}, "def.unknown_field", "/colour"),
        ({"trust": {"executors": [{"public_key": "d7"}]}}, "trust.bad_key",
         "/trust/executors/0/public_key"),
        ({"routing": {"subscriptions": [{"event": "com.acme/E@1", "workflow": "com.acme/w@1",
                                         "filter": {"origin": ["moon"]}}]}},
         "def.bad_value", "/routing/subscriptions/0/filter/origin/0"),
        ({"module_bindings": {"com.acme/w@1": {"slots": {"a b": "g"}}}}, "def.bad_name",
         "/module_bindings/com.acme~1w@1/slots/a b"),
        ({"authority": {"grants": [{"name": "g", "cap": "sys/file@1", "params": {"a": b"x"}}]}},
         "def.bad_value", "/authority/grants/0/params/a"),
    ],
)  # fmt: skip
def test_a_manifest_names_its_faults(source, code, path):
    """MO-15 (manifest): each fault has its code and path, and no manifest comes out."""
    defs = [canonical(smallest("defcap"))]
    made, found = manifest.assemble(defs, source)
    assert made is None
    assert [(f.code, f.path) for f in found] == [(code, path)]
    with pytest.raises(BadDefinition) as caught:
        manifest.canonical_manifest(defs, source)
    assert caught.value.code == code


def test_two_definitions_of_one_name_are_refused():
    """MO-15: `def.duplicate` names the definition."""
    defs = [canonical(smallest("defcap")), canonical(smallest("defcap", cap_type="other"))]
    made, found = manifest.assemble(defs, {})
    assert made is None
    assert [(f.code, f.def_name) for f in found] == [("def.duplicate", "com.acme/thing@1")]


def test_the_first_error_is_raised_before_any_warning():
    """MO-15: a warning alone is never the reason of a refusal."""
    found = [
        definitions.Finding("legacy.note", "a", "", "old"),
        definitions.Finding("def.bad_name", "a", "/name", "bad"),
    ]
    assert definitions.refusal(found).code == "def.bad_name"
