"""Attenuation: no chain of delegation ever widens."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.authority.attenuate import attenuate
from tallystick.authority.denial import Denial
from tallystick.model.catalogue import Grant, grant_hash
from tests.authority.grants import NOW, code_of, grant, judge

HOSTS = ["a.example", "b.example", "*.example", "x.a.example", "*.a.example", "127.0.0.1", "svc"]
POOLS: dict[str, dict[str, list[Any]]] = {
    "http.out": {
        "hosts": HOSTS,
        "schemes": ["http", "https"],
        "ports": [80, 443, 8080],
        "methods": ["GET", "POST"],
        "path_prefixes": ["/v1", "/v1/", "/v1/a", "/v10"],
        "max_body_bytes": [0, 1, 5],
        "cidrs": ["127.0.0.0/8", "10.0.0.0/8", "127.0.0.1/32"],
    },
    "file": {
        "roots": ["w", "v"],
        "ops": ["read", "write", "delete"],
        "path_prefixes": ["docs", "docs/", "docs/a", "d", ""],
        "globs": ["**", "docs/*", "docs/**", "*.md"],
        "max_bytes": [0, 1, 5],
    },
    "shell": {
        "programs": ["git", "ls"],
        "text": [False, True],
        "network": [False, True],
        "env": ["A", "B"],
        "max_seconds": [1, 2],
    },
    "llm": {
        "providers": ["p", "q"],
        "models": ["m", "m-*", "m-x"],
        "max_tokens": [1, 9],
        "tools": ["t"],
    },
    "timer": {"max_horizon_ns": [0, 10, 1000]},
    "workflow": {"workflows": ["a/b@1", "a/*", "*"], "worlds": ["w"]},
}
SINGLE = (
    "max_body_bytes",
    "max_bytes",
    "text",
    "network",
    "max_seconds",
    "max_tokens",
    "max_horizon_ns",
)


def some_params(rng: random.Random, cap: str) -> dict[str, Any]:
    """A choice of fields and values for a grant."""
    params: dict[str, Any] = {}
    for field, pool in POOLS[cap].items():
        if rng.random() < 0.65:
            continue
        if field in SINGLE:
            params[field] = rng.choice(pool)
        else:
            params[field] = sorted(rng.sample(pool, rng.randint(0, len(pool))))
    return params


# tidy: one case per capability.
def some_request(rng: random.Random, cap: str) -> tuple[str, dict[str, Any]]:
    """An effect and params that one of the pools might allow."""
    pick = rng.choice
    if cap == "http.out":
        host = pick(
            ["a.example", "b.example", "x.a.example", "c.org", "127.0.0.1", "svc", "localhost"]
        )
        url = (
            pick(["http", "https"])
            + "://"
            + host
            + pick(["", ":8080"])
            + pick(["", "/v1", "/v1/a/b", "/v10"])
        )
        body = pick([None, b"", b"123"])
        return "http.request", {
            "method": pick(["GET", "POST"]),
            "url": url,
            "headers": None,
            "body": body,
        }
    if cap == "file":
        path = pick(["docs", "docs/a", "docs/a/b.md", "x.md", "docs/../x"])
        return pick(["file.read", "file.write", "file.delete"]), {
            "workspace": pick(["w", "v", "u"]),
            "path": path,
            "content": pick([None, b"123"]),
        }
    if cap == "shell":
        return "shell.run", {
            "argv": pick([["git"], ["ls", "x"], ["rm"], "git log"]),
            "env": pick([None, {"A": ""}, {"C": ""}]),
            "net": pick([None, False, True]),
        }
    if cap == "llm":
        model = pick(["m", "m-x", "m-y", "n"])
        return "llm.generate", {
            "provider": pick(["p", "q", "r"]),
            "model": model,
            "max_tokens": pick([0, 5, 50]),
            "options": pick([None, {"tools": ["t"]}, {"tools": ["u"]}]),
        }
    if cap == "timer":
        return "timer.set", {"deliver_at_ns": NOW + pick([0, 5, 500, 10**9])}
    return "workflow.spawn", {
        "workflow": pick(["a/b@1", "a/c@1", "z/z@1"]),
        "world": pick([None, "w", "x"]),
    }


def allows(held: Grant, asked: tuple[str, dict[str, Any]], now: int) -> bool:
    """Whether this grant alone says yes: its line is cut, so ancestors cannot help."""
    alone = replace(held, parent=None)
    return code_of(judge(asked[0], alone, asked[1], logical_now_ns=now)) == "ok"


def check_chain(seed: int, links: int, asks: int) -> tuple[int, int]:
    """One chain: every derived grant denies what its parent denies. Counts links and yeses."""
    rng = random.Random(seed)
    cap = rng.choice(sorted(POOLS))
    line = [grant(cap, "g0", **some_params(rng, cap))]
    for n in range(1, links):
        expires = rng.choice([None, NOW - 1, NOW + 1, NOW + 9])
        # Few fields at a time, so that most derivations succeed and the line grows.
        asked_for = sorted(some_params(rng, cap).items())
        params = dict(rng.sample(asked_for, min(2, len(asked_for))))
        made = attenuate(line[-1], params, expires, f"g{n}")
        if isinstance(made, Denial):
            assert made.code == "cap.widening"
            assert made.path in POOLS[cap]
        else:
            line.append(made)
    yes = 0
    for _ in range(asks):
        asked = some_request(rng, cap)
        now = rng.choice([NOW, NOW + 5])
        said = [allows(one, asked, now) for one in line]
        yes += sum(said)
        # Once a no appears in the line, every later answer is a no.
        assert said == sorted(said, reverse=True), (line, asked)
    return len(line), yes


@pytest.mark.clause("X-17", "X-24")
def test_ten_thousand_chains_never_widen() -> None:
    """AG-06: over 10,000 delegation chains no derived grant admits what its parent denies."""
    derived = yes = 0
    for seed in range(10_000):
        length, said = check_chain(seed, links=4, asks=3)
        derived += length - 1
        yes += said
    # The chains bite: many derivations succeed, and many requests are allowed.
    assert derived > 3_000
    assert yes > 3_000


@pytest.mark.clause("X-17", "X-24")
@settings(max_examples=150, deadline=None)
@given(st.integers(10_000, 2**40))
def test_chains_found_by_search_never_widen(seed: int) -> None:
    """AG-06: as above, with longer chains that hypothesis may shrink."""
    check_chain(seed, links=7, asks=12)


# (cap, parent, child, the field that widens or None)
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], str | None]] = [
    ("http.out", {}, {"hosts": ["a.b"]}, None),
    ("http.out", {"hosts": ["a.b"]}, {"hosts": ["a.b"]}, None),
    ("http.out", {"hosts": ["a.b"]}, {"hosts": []}, None),
    ("http.out", {"hosts": ["a.b"]}, {"hosts": ["c.b"]}, "hosts"),
    ("http.out", {"hosts": ["*.b"]}, {"hosts": ["c.b", "*.d.b"]}, None),
    ("http.out", {"hosts": ["*.b"]}, {"hosts": ["b"]}, "hosts"),
    ("http.out", {"hosts": ["*.a.b"]}, {"hosts": ["*.b"]}, "hosts"),
    ("http.out", {"hosts": ["*.b"]}, {"hosts": ["xb"]}, "hosts"),
    ("http.out", {"methods": ["GET"]}, {"methods": ["GET", "PUT"]}, "methods"),
    ("http.out", {"path_prefixes": ["/v1"]}, {"path_prefixes": ["/v1/x"]}, None),
    ("http.out", {"path_prefixes": ["/v1"]}, {"path_prefixes": ["/v10"]}, "path_prefixes"),
    ("http.out", {"path_prefixes": ["/v1/"]}, {"path_prefixes": ["/v1"]}, "path_prefixes"),
    ("http.out", {"max_body_bytes": 5}, {"max_body_bytes": 5}, None),
    ("http.out", {"max_body_bytes": 5}, {"max_body_bytes": 6}, "max_body_bytes"),
    ("http.out", {"max_body_bytes": 5}, {"max_body_bytes": True}, "max_body_bytes"),
    ("http.out", {"max_body_bytes": 5}, {"max_body_bytes": None}, None),
    ("http.out", {}, {"cidrs": ["10.0.0.0/8"]}, "cidrs"),
    ("http.out", {"cidrs": ["10.0.0.0/8"]}, {"cidrs": []}, None),
    ("http.out", {"hosts": ["a.b"]}, {"hosts": "a.b"}, "hosts"),
    ("shell", {}, {"network": True}, "network"),
    ("shell", {}, {"network": False}, None),
    ("shell", {"network": True}, {"network": False}, None),
    ("shell", {"network": False}, {"network": True}, "network"),
    ("effect", {}, {"unknown": 1}, "unknown"),
]


@pytest.mark.clause("X-17", "K-29")
@pytest.mark.parametrize(("cap", "held", "asked", "field"), TABLE, ids=range(len(TABLE)))
def test_each_order(
    cap: str, held: dict[str, Any], asked: dict[str, Any], field: str | None
) -> None:
    """AG-06: each order kind accepts the narrower and names the field that would widen."""
    made = attenuate(grant(cap, **held), asked, None, "child")
    if field is None:
        assert isinstance(made, Grant)
    else:
        assert isinstance(made, Denial)
        assert (made.code, made.path) == ("cap.widening", field)


@pytest.mark.clause("X-17")
def test_min_and_equal_orders() -> None:
    """A capability's own orders: `min` may rise, `equal` and unordered fields may not change."""
    held = replace(
        grant("timer"),
        params={"low": 3, "mark": "a", "free": 1},
        order={"low": "min", "mark": "equal"},
    )
    rows: list[tuple[dict[str, Any], bool]] = [
        ({"low": 4}, True),
        ({"low": 2}, False),
        ({"mark": "a"}, True),
        ({"mark": "b"}, False),
    ]
    rows += [
        ({"free": 1}, True),
        ({"free": 2}, False),
        ({"free": True}, False),
        ({"new": 1}, False),
    ]
    for asked, fine in rows:
        assert isinstance(attenuate(held, asked, None, "c"), Grant) is fine


@pytest.mark.clause("X-17")
def test_absent_inherits_and_the_earlier_expiry_wins() -> None:
    """A child keeps what it does not state, ends no later, and its hash pins its line."""
    held = replace(grant("http.out", methods=["GET"]), expires_ns=50)
    for asked, ends in ((None, 50), (40, 40), (60, 50)):
        made = attenuate(held, {"hosts": ["a.b"]}, asked, "child")
        assert isinstance(made, Grant)
        assert (made.params["methods"], made.params["hosts"]) == (["GET"], ["a.b"])
        assert (made.expires_ns, made.parent, made.name) == (ends, "g", "child")
        assert made.hash == grant_hash(held.cap_hash, made.params, ends, held.hash)
        assert made.hash != held.hash
    free = attenuate(grant("http.out"), None, 7, "child")
    assert isinstance(free, Grant)
    assert free.expires_ns == 7
