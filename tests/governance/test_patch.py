"""Patches: each operation finds what it says or is refused, and what comes out is one bundle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.governance.patch import Blobs, bundle_of, compiled, derived, rebased
from tallystick.governance.sealed import check_sealed
from tallystick.model.bundle import Bundle
from tallystick.model.lower_words import REFUSALS
from tallystick.modules.source import bundle_of as source_bundle
from tallystick.values import canon
from tallystick.values.seal import KeyPair, bundle_statement
from tests.governance.apps import TILL, app

BASE = app()
NOTE = {"$kind": "defschema", "name": "till/Note@1", "type": {"record": {"text": {"text": {}}}}}


def blobs(*bundles: Bundle) -> Blobs:
    held: dict[bytes, bytes] = {}
    for each in bundles:
        held |= each.blobs()
    return Blobs(held.get)


def patch(*operations: dict[str, Any], base: Bundle = BASE) -> dict[str, Any]:
    return {
        "version": "2",
        "base_manifest_hash": canon.hash(base.manifest),
        "patches": list(operations),
    }


def node(kind: str, name: str, of: Bundle = BASE) -> dict[str, Any]:
    (found,) = [d for d in of.definitions() if (d["$kind"], d["name"]) == (kind, name)]
    return found


def refusal(act: Callable[[], Any]) -> TallyError:
    with pytest.raises(TallyError) as caught:
        act()
    return caught.value


def test_the_active_bundle_is_found_again() -> None:
    """From its manifest and a blob store the very same bundle comes out."""
    again = bundle_of(BASE.manifest_digest, blobs(BASE))
    assert again.root == BASE.root


# tidy: one story, told in order.
@pytest.mark.clause("X-19")
def test_a_patch_makes_one_candidate() -> None:
    """AG-17: add, replace, remove and set give one bundle, equal to one that was built so."""
    limits = {"effects_max": 3}
    flow = {**node("defworkflow", TILL), "determinism": "strict"}
    made = compiled(
        patch(
            {"add_def": {"kind": "schema", "node": NOTE}},
            {"set_section": {"section": "limits", "pre_hash": canon.hash({}), "value": limits}},
            {
                "replace_def": {
                    "kind": "workflow",
                    "name": TILL,
                    "pre_hash": canon.hash(node("defworkflow", TILL)),
                    "new_node": flow,
                }
            },
        ),
        BASE,
        blobs(BASE),
    )
    assert made.bundle.manifest["limits"] == limits
    assert node("defschema", "till/Note@1", made.bundle) == NOTE
    assert made.summary == {
        "added": [{"kind": "schema", "name": "till/Note@1"}],
        "removed": [],
        "changed": [{"kind": "workflow", "name": TILL}],
        "sections": ["limits"],
    }
    removed = {"kind": "schema", "name": "till/Note@1", "pre_hash": canon.hash(NOTE)}
    back = compiled(patch({"remove_def": removed}, base=made.bundle), made.bundle, blobs(BASE))
    assert back.summary["removed"] == [{"kind": "schema", "name": "till/Note@1"}]


@pytest.mark.clause("X-19")
def test_a_bundle_is_derived_into_a_patch() -> None:
    """AG-16: the patch of a bundle, compiled again, gives the very bundle."""
    other = app(2, limits={"effects_max": 7})
    made = derived(other, BASE)
    assert made.summary["sections"] == ["limits"]
    again = compiled(made.patch, BASE, blobs(BASE, other))
    assert again.bundle.root == other.root
    assert derived(BASE, BASE).patch["patches"] == []


@pytest.mark.clause("X-19")
def test_a_rebase_works_or_names_the_operation() -> None:
    """AG-16: what does not touch the same thing is carried over; what does is named."""
    first = derived(app(1, limits={"effects_max": 7}), BASE)
    beside = compiled(patch({"add_def": {"kind": "schema", "node": NOTE}}), BASE, blobs(BASE))
    moved = rebased(beside.patch, first.bundle, blobs(BASE))
    assert moved.bundle.manifest["limits"] == {"effects_max": 7}
    assert node("defschema", "till/Note@1", moved.bundle) == NOTE
    same = derived(app(1, limits={"effects_max": 9}), BASE)
    why = refusal(lambda: rebased(same.patch, first.bundle, blobs(BASE)))
    assert why.code == "gov.pre_hash_mismatch"
    assert (why.where["op"], why.where["name"]) == (0, "limits")


def ops(*given: dict[str, Any]) -> Callable[[], Any]:
    return lambda: compiled(patch(*given), BASE, blobs(BASE))


LIMITS = {"section": "limits", "pre_hash": canon.hash({}), "value": {}}
ROUTED = canon.hash(BASE.manifest["routing"]["subscriptions"])
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "another base": (
        lambda: compiled({**patch(), "base_manifest_hash": canon.hash({})}, BASE, blobs(BASE)),
        "gov.stale_base",
    ),
    "no patch": (lambda: compiled({"patches": []}, BASE, blobs(BASE)), "gov.bad_patch"),
    "two operations in one": (ops({"add_def": {}, "remove_def": {}}), "gov.bad_patch"),
    "an unknown operation": (ops({"drop_all": {}}), "gov.bad_patch"),
    "an operation that is none": (ops({"add_def": []}), "gov.bad_patch"),
    "an unknown section": (ops({"set_section": {**LIMITS, "section": "x"}}), "gov.bad_patch"),
    "a section without its hash": (
        ops({"set_section": {"section": "limits", "value": {}}}),
        "gov.bad_patch",
    ),
    "a section with a wrong hash": (
        ops({"set_section": {**LIMITS, "pre_hash": canon.hash(1)}}),
        "gov.pre_hash_mismatch",
    ),
    "a definition with a wrong hash": (
        ops({"remove_def": {"kind": "workflow", "name": TILL, "pre_hash": canon.hash(1)}}),
        "gov.pre_hash_mismatch",
    ),
    "one that is not there": (
        ops({"remove_def": {"kind": "workflow", "name": "a/b@1", "pre_hash": canon.hash(1)}}),
        "gov.pre_hash_mismatch",
    ),
    "added and there as another": (
        ops(
            {
                "add_def": {
                    "kind": "workflow",
                    "node": {**node("defworkflow", TILL), "reads": [TILL]},
                }
            }
        ),
        "gov.pre_hash_mismatch",
    ),
    "ours, added": (
        ops({"add_def": {"kind": "schema", "node": {**NOTE, "name": "sys/Note@1"}}}),
        "gov.reserved_name",
    ),
    "ours, removed": (
        ops({"remove_def": {"kind": "effect", "name": "sys/timer.set@1", "pre_hash": ""}}),
        "gov.reserved_name",
    ),
    "a plan": (ops({"add_def": {"kind": "plan", "node": {}}}), "legacy.defplan"),
    "triggers": (ops({"set_triggers": {"pre_hash": "", "triggers": []}}), "legacy.triggers"),
    "inboxes": (ops({"set_routing_inboxes": {"pre_hash": "", "inboxes": []}}), "legacy.inboxes"),
    "another name": (
        ops(
            {
                "replace_def": {
                    "kind": "workflow",
                    "name": TILL,
                    "pre_hash": canon.hash(node("defworkflow", TILL)),
                    "new_node": {**node("defworkflow", TILL), "name": "till/other@1"},
                }
            }
        ),
        "gov.bad_patch",
    ),
    "a hole": (
        ops(
            {
                "remove_def": {
                    "kind": "effect",
                    "name": "till/Print@1",
                    "pre_hash": canon.hash(node("defeffect", "till/Print@1")),
                }
            }
        ),
        "workflow.effect_unknown",
    ),
    "a kind that is none": (ops({"add_def": {"kind": "song", "node": {}}}), "gov.bad_patch"),
    "no node": (ops({"add_def": {"kind": "schema", "node": 3}}), "gov.bad_patch"),
    "no name": (ops({"remove_def": {"kind": "schema", "pre_hash": ""}}), "gov.bad_patch"),
    "routes that are none": (
        ops({"set_routing_subscriptions": {"pre_hash": ROUTED, "subscriptions": 3}}),
        "def.bad_value",
    ),
    "a misshapen node": (ops({"add_def": {"kind": "schema", "node": {"name": 1}}}), "def.bad_name"),
}


@pytest.mark.clause("X-19", "K-24")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    """AG-17: wrong pre_hash, `sys/*`, `defplan` and every misshapen operation, each by its code."""
    act, code = REFUSED[name]
    why = refusal(act)
    assert why.code == code
    assert why.where
    if code.startswith("legacy."):
        assert why.message == REFUSALS[code]


@pytest.mark.clause("K-32")
def test_older_operations_are_lowered() -> None:
    """K-32: `set_routing_events`, `set_module_bindings` and `set_defaults` become sections."""
    routing = BASE.manifest["routing"]["subscriptions"]
    bindings = BASE.manifest["module_bindings"]
    grants = BASE.manifest["authority"]["grants"]
    made = compiled(
        patch(
            {"set_routing_events": {"pre_hash": canon.hash(routing), "subscriptions": routing}},
            {"set_module_bindings": {"pre_hash": canon.hash(bindings), "bindings": bindings}},
            {"set_defaults": {"cap_grants": grants}},
            {"set_defaults": {}},
        ),
        BASE,
        blobs(BASE),
    )
    assert made.bundle.root == BASE.root


@pytest.mark.clause("X-24")
def test_python_from_elsewhere_is_sealed() -> None:
    """Where somebody has a key to propose with, new Python needs a seal of such a key."""
    alice, mallory = KeyPair(b"a" * 32), KeyPair(b"m" * 32)
    people = [
        {"id": "alice", "scopes": ["propose"], "key": "ed25519:" + alice.public.hex()},
        {"id": "mallory", "scopes": ["read"], "key": "ed25519:" + mallory.public.hex()},
    ]
    other = app(2)
    check_sealed(other, BASE, [])
    check_sealed(app(1, limits={"effects_max": 3}), BASE, people)  # the same Python

    def sealed(pair: KeyPair) -> Bundle:
        made = pair.sign(bundle_statement(bundle=other.root))
        return other.sealed(canon.encode([made]))

    for bad in (other, sealed(mallory), other.sealed(canon.encode({})), other.sealed(b"x")):
        assert refusal(lambda bad=bad: check_sealed(bad, BASE, people)).code == "bundle.unsigned"  # type: ignore[misc]
    check_sealed(sealed(alice), BASE, people)


EXAMPLE = Path(__file__).parents[2] / "examples" / "11-upgrade" / "app.py"


@pytest.mark.clause("X-20")
def test_an_upcast_covers_a_lost_arm() -> None:
    """AG-27: a workflow's event may lose an arm that an upcast reads on; without it, it may not."""
    new, old = (EXAMPLE.with_name(name).read_text("utf-8") for name in ("app.py", "v1.py"))
    before = source_bundle({"app.py": old.encode()})
    after = source_bundle({"app.py": new.encode()})
    added = {row["kind"] for row in derived(after, before).summary["added"]}
    assert added == {"module", "schema", "upcast", "migration"}
    bare = source_bundle({"app.py": new.replace("@app.upcast(Sold, SoldIn)\n", "").encode()})
    assert refusal(lambda: derived(bare, before)).code == "schema.not_additive"
