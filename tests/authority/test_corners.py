"""Corners of authority: keys of principals, claims on flows, statements of SQL."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.authority.approvals import key_of
from tallystick.authority.flow import claims_of, compile_flows
from tallystick.authority.policy import TRACKS_MAX, PolicyFacts
from tallystick.authority.sqltext import statements
from tallystick.values import canon

FACTS = PolicyFacts(
    "t/charge@1",
    "t/cap@1",
    "effect",
    "g",
    {"kind": "workflow"},
    "t/flow@1",
    (),
    {"n": 3, "who": "ann"},
    b"\x01",
    70,
)


def test_only_a_readable_key_is_a_key() -> None:
    """06 section 3: of the principal who is asked for, in its form; anything else is none."""
    listed = [
        {"id": "ann", "key": "ed25519:" + "ab" * 32},
        {"id": "bob", "key": "ed25519:not hex"},
        {"id": "eve", "key": "rsa:00"},
    ]
    assert key_of("ann", listed) == b"\xab" * 32
    assert [key_of(who, listed) for who in ("bob", "eve", "nobody")] == [None, None, None]


def claimed(scope: str, key: str = "params.who", **budget: Any) -> dict[str, Any]:
    """What a request asks of a keyed flow with a budget of that scope."""
    flow = {"name": "f", "keyed": {"key": key}, "budget": {"name": "b", "cost": "params.n"}}
    other = {"name": "first", "keyed": {"key": key}}
    budgets = [{"name": "b", "unit": "cents", "limit": 9, "scope": scope, **budget}]
    made = claims_of(compile_flows([other, flow], budgets), FACTS)
    assert isinstance(made, list)
    assert made[0]["flow"] == "first"
    return made[1]


@pytest.mark.parametrize(
    ("scope", "purse"),
    [
        ("world", "b"),
        ("workflow", "b t/flow@1"),
        ("cell", "b t/flow@1 01"),
        ("key", "b ann"),
    ],
)
def test_the_scope_of_a_budget_says_whose_purse_pays(scope: str, purse: str) -> None:
    """06 section 4: one for the world, or one for each workflow, cell or key."""
    assert claimed(scope) == {
        "flow": "f",
        "key": "ann",
        "cost": 3,
        "budget": purse,
        "unit": "cents",
        "window": 0,
    }
    assert claimed(scope, window_ns=20)["window"] == 3


def test_a_key_is_a_text() -> None:
    """06 section 4: a number is written out; anything else is named by its hash."""
    assert claimed("world", "params.n")["key"] == "3"
    assert claimed("world", "[params.n]")["key"] == canon.hash_of(canon.encode([3]))


@pytest.mark.parametrize(
    ("key", "expression", "claim"),
    [
        ("o-1", "key", "o-1"),
        ("o-1", "key + '/' + params.who", "o-1/ann"),
        ({"region": "eu", "n": 4}, "key.region", "eu"),
        (None, "key is none", canon.hash_of(canon.encode(True))),
    ],
)
def test_the_key_of_a_cell_is_its_value(key: Any, expression: str, claim: str) -> None:
    """06 sections 3, 4: `key` means one thing in every expression, in flows as in rules."""
    facts = FACTS._replace(key=b"" if key is None else canon.encode(key))
    flow = {"name": "f", "keyed": {"key": expression}}
    assert claims_of(compile_flows([flow], []), facts) == [{"flow": "f", "key": claim}]


def test_which_flows_are_met_is_remembered_within_bounds() -> None:
    """06 section 4: by names alone; a memory that is full begins again, and the answer stays."""
    flows = compile_flows([{"name": "f", "match": {"effect": "t/*"}}], [])
    for number in range(TRACKS_MAX + 1):
        met = flows.met_by(FACTS._replace(effect=f"t/e{number}@1"))
        assert [flow.name for flow in met] == ["f"]
    assert flows.met_by(FACTS._replace(effect="u/other@1")) == ()
    assert len(flows._met) <= TRACKS_MAX


def test_statements_end_outside_quotes() -> None:
    """07 section 5: a semicolon in a text or a name is part of it; an open quote is refused."""
    assert statements("a; 'x;y' ; [n;m];; b") == ["a", "'x;y'", "[n;m]", "b"]
    assert statements("select 'open; select 1") is None
