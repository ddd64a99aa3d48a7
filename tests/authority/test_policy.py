"""Policies: first match wins, none denies, a fault denies, origins are never forged."""

# tidy: tables, and a reference model beside what it checks.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.authority.denial import Denial
from tallystick.authority.policy import PolicyFacts, PolicyVerdict, Rules, policy_findings
from tallystick.errors import BadDefinition
from tallystick.model.catalogue import Policy
from tallystick.values import canon

FACTS = PolicyFacts(
    effect="sys/http.request@1",
    cap="sys/http.out@1",
    cap_type="http.out",
    grant="payments_api",
    origin={"kind": "workflow", "workflow": "com.acme/order.step@1"},
    workflow="com.acme/order.step@1",
    tags=("prod", "billing"),
    params={"method": "DELETE", "n": 5, "origin": {"kind": "system"}},
    key=canon.encode("o-17"),
    now_ns=1_800_000_000_000_000_000,
)
ALLOW = {"id": "rest", "decision": "allow"}


def rules(*raw: Mapping[str, Any], name: str = "com.acme/main@1") -> Rules:
    return Rules.compile([Policy(name, raw)])


def answer(judged: PolicyVerdict | Denial) -> str:
    return judged.code if isinstance(judged, Denial) else judged.decision


# tidy: the example of the design, whole.
@pytest.mark.clause("X-24")
def test_the_design_example() -> None:
    """AG-08: the rules of 06 section 3 judge as they are written there."""
    made = rules(
        {
            "id": "no-prod-delete",
            "when": {"effect": "sys/http.request@1", "tags": ["prod"]},
            "where": "{{ params.method == 'DELETE' }}",
            "decision": "deny",
        },
        {
            "id": "big-prompts",
            "when": {"cap_type": "llm"},
            "where": "{{ params.max_tokens > 100000 }}",
            "decision": "require_approval",
            "approval": {"by": ["role:finance"], "count": 1, "ttl_ns": 86400000000000},
            "reason": "costs money",
        },
        {"id": "rest", "when": {"origin": "workflow"}, "decision": "allow"},
    )
    denied = made.judge(FACTS)
    assert isinstance(denied, Denial)
    assert (denied.stage, denied.code) == ("policy", "policy.denied")
    assert denied.rule == 'com.acme/main@1 rule 0 "no-prod-delete"'
    got = made.judge(FACTS._replace(params={"method": "GET"}))
    assert got == PolicyVerdict("com.acme/main@1", 2, "rest", "allow", None, None)
    prompt = FACTS._replace(
        effect="sys/llm.generate@1", cap_type="llm", params={"max_tokens": 10**6}
    )
    held = made.judge(prompt)
    assert isinstance(held, PolicyVerdict)
    assert (held.rule, held.decision, held.reason) == (1, "require_approval", "costs money")
    assert held.approval == {"by": ["role:finance"], "count": 1, "ttl_ns": 86400000000000}
    assert answer(made.judge(prompt._replace(params={"max_tokens": 5}))) == "allow"
    assert answer(made.judge(prompt._replace(params={}))) == "policy.expression_fault"


@pytest.mark.clause("K-22")
def test_origin_matrix() -> None:
    """AG-04: a rule without origin matches workflow requests only; a forged one has no effect."""
    open_rule, any_rule = ALLOW, {**ALLOW, "when": {"origin": "*"}}
    for kind in ("workflow", "system", "governance"):
        facts = FACTS._replace(origin={"kind": kind})
        assert answer(rules(open_rule).judge(facts)) == (
            "allow" if kind == "workflow" else "policy.no_match"
        )
        assert answer(rules(any_rule).judge(facts)) == "allow"
        for wanted in ("workflow", "system", "governance"):
            ruled = rules({**ALLOW, "when": {"origin": wanted}}).judge(facts)
            assert answer(ruled) == ("allow" if wanted == kind else "policy.no_match")
        # What the request says of itself, in params, key, tags or names, is not its origin.
        for liar in ("system", "governance", "workflow"):
            forged = facts._replace(
                params={"origin": liar, "kind": liar},
                key=canon.encode(liar),
                tags=(liar,),
                workflow=f"com.acme/{liar}@1",
            )
            judged = rules({**ALLOW, "when": {"origin": liar}}).judge(forged)
            assert answer(judged) == ("allow" if liar == kind else "policy.no_match")
        where = {**any_rule, "where": "{{ origin.kind == 'system' }}"}
        judged = rules(where).judge(facts._replace(params={"origin": {"kind": "system"}}))
        assert answer(judged) == ("allow" if kind == "system" else "policy.no_match")


WHEN = [
    ({"effect": "sys/http.request@1"}, True),
    ({"effect": "sys/http.*"}, True),
    ({"effect": "*"}, True),
    ({"effect": "sys/http"}, False),
    ({"effect": "*request@1"}, False),
    ({"effect": ["x", "sys/http.request@1"]}, True),
    ({"cap": "sys/http.out@1"}, True),
    ({"cap_type": "http.out"}, True),
    ({"cap_type": "http"}, False),
    ({"grant": "payments_*"}, True),
    ({"grant": "other"}, False),
    ({"workflow": "com.acme/order.*"}, True),
    ({"workflow": "com.acme/order"}, False),
    ({"tags": ["prod"]}, True),
    ({"tags": ["dev", "bill*"]}, True),
    ({"tags": ["dev"]}, False),
    ({"tags": []}, False),
    ({"effect": "sys/*", "grant": "other"}, False),
    ({}, True),
]


@pytest.mark.clause("X-24")
@pytest.mark.parametrize(("when", "fits"), WHEN, ids=[str(when) for when, _ in WHEN])
def test_when_keys(when: dict[str, Any], fits: bool) -> None:
    """All keys of `when` must match; a trailing star is a prefix, any other star a letter."""
    assert answer(rules({**ALLOW, "when": when}).judge(FACTS)) == (
        "allow" if fits else "policy.no_match"
    )


@pytest.mark.clause("X-24")
def test_where_reads_only_its_scope() -> None:
    """`where` sees the nine names of 06 section 3; any other is a fault, and a fault denies."""
    names = ["effect", "params", "origin", "workflow", "key", "tags", "cap", "grant", "now_ns"]
    for name in names:
        made = rules({**ALLOW, "where": f"{{{{ {name} is defined }}}}"})
        assert answer(made.judge(FACTS)) == "allow"
    for name in ("world", "secrets", "request", "cap_type"):
        judged = rules({**ALLOW, "where": f"{{{{ {name} }}}}"}, ALLOW).judge(FACTS)
        assert isinstance(judged, Denial)
        assert judged.code == "policy.expression_fault"
        assert judged.rule == 'com.acme/main@1 rule 0 "rest"'


@pytest.mark.clause("X-24")
@pytest.mark.parametrize(
    ("key", "where"),
    [
        (canon.encode("o-17"), "key == 'o-17'"),
        (canon.encode(7), "key > 6"),
        (canon.encode({"region": "eu", "n": 1}), "key.region == 'eu'"),
        (b"", "key is none"),
    ],
    ids=["text", "number", "record", "unkeyed"],
)
def test_where_reads_the_key_as_a_value(key: bytes, where: str) -> None:
    """06 section 3: a rule names a cell by what its key says; an unkeyed workflow has null."""
    deny = {"id": "no", "where": f"{{{{ {where} }}}}", "decision": "deny"}
    assert answer(rules(deny, ALLOW).judge(FACTS._replace(key=key))) == "policy.denied"


@pytest.mark.clause("X-03", "X-24")
def test_kept_tracks_are_bounded() -> None:
    """A stream of new names neither grows the memory of past judgements nor changes them."""
    made = rules({**ALLOW, "when": {"grant": "g1*"}})
    for n in range(5000):
        judged = answer(made.judge(FACTS._replace(grant=f"g{n}")))
        assert judged == ("allow" if str(n).startswith("1") else "policy.no_match")
    assert len(made._tracks) <= 4096


@pytest.mark.clause("X-24")
def test_no_rules_deny() -> None:
    """D6: a world without rules denies everything."""
    assert answer(Rules.compile([]).judge(FACTS)) == "policy.no_match"


# ---- a reference model that shares nothing with the room -------------------------------------

EFFECTS = ["sys/http.request@1", "sys/timer.set@1", "com.acme/charge@1"]
WORKFLOWS = ["com.acme/order.step@1", "com.acme/report@1"]
WHERES: dict[str, Any] = {
    "{{ params.n > 3 }}": lambda p: p["n"] > 3,
    "{{ params.m == 'x' }}": lambda p: p["m"] == "x",
    "{{ params.m is defined and params.n < 2 }}": lambda p: "m" in p and p["n"] < 2,
    "{{ params.n | default(9) > 5 }}": lambda p: p.get("n", 9) > 5,
    "{{ 10 // params.n == 2 }}": lambda p: 10 // p["n"] == 2,
    "{{ true }}": lambda _p: True,
    "{{ false }}": lambda _p: False,
}


def reference(policies: list[list[dict[str, Any]]], request: dict[str, Any]) -> tuple[Any, ...]:
    """First match, default deny, faulting where denies: in as few words as possible."""
    for number, policy in enumerate(policies):
        for index, rule in enumerate(policy):
            when = {"origin": "workflow", **rule.get("when", {})}
            if not all(fits(key, wanted, request) for key, wanted in when.items()):
                continue
            try:
                hit = WHERES[rule["where"]](request["params"]) if "where" in rule else True
            except (KeyError, TypeError, ZeroDivisionError):
                return ("policy.expression_fault", number, index)
            if hit:
                return (rule["decision"], number, index)
    return ("policy.no_match",)


def fits(key: str, wanted: Any, request: dict[str, Any]) -> bool:
    """One key of `when` against a request."""
    names = request[key] if key == "tags" else [request[key]]
    for pattern in wanted if isinstance(wanted, list) else [wanted]:
        for name in names:
            if pattern == name or (
                pattern[-1:] == "*" and name[: len(pattern) - 1] == pattern[:-1]
            ):
                return True
    return False


def _when() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "effect": st.sampled_from([*EFFECTS, "sys/*", "*"]),
            "workflow": st.sampled_from([*WORKFLOWS, "com.acme/*", "com.acme/order*"]),
            "origin": st.sampled_from(["workflow", "system", "governance", "*"]),
            "tags": st.lists(st.sampled_from(["a", "b", "a*"]), max_size=2),
            "grant": st.sampled_from(["g", "h", "g*"]),
        },
    )


_RULE = st.fixed_dictionaries(
    {"decision": st.sampled_from(["allow", "deny", "require_approval"])},
    optional={"when": _when(), "where": st.sampled_from(sorted(WHERES))},
)
_REQUEST = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(EFFECTS),
        "workflow": st.sampled_from(WORKFLOWS),
        "origin": st.sampled_from(["workflow", "workflow", "system", "governance"]),
        "tags": st.lists(st.sampled_from(["a", "b", "ab"]), max_size=2),
        "grant": st.sampled_from(["g", "h", "gg"]),
        "params": st.fixed_dictionaries(
            {}, optional={"n": st.integers(-2, 9), "m": st.sampled_from(["x", "y"])}
        ),
    }
)


def ours(made: Rules, request: dict[str, Any]) -> tuple[Any, ...]:
    """The judgement in the words of the reference model."""
    judged = made.judge(
        FACTS._replace(
            effect=request["effect"],
            workflow=request["workflow"],
            origin={"kind": request["origin"]},
            tags=tuple(request["tags"]),
            grant=request["grant"],
            params=request["params"],
        )
    )
    if isinstance(judged, PolicyVerdict):
        return (judged.decision, int(judged.policy), judged.rule)
    if judged.rule is None:
        return (judged.code,)
    policy, _, index = judged.rule.partition(" rule ")
    code = "deny" if judged.code == "policy.denied" else judged.code
    return (code, int(policy), int(index))


@pytest.mark.clause("X-24")
@settings(max_examples=1250, deadline=None)
@given(
    st.lists(st.lists(_RULE, max_size=5), min_size=1, max_size=2),
    st.lists(_REQUEST, min_size=4, max_size=4),
)
def test_equals_the_reference_model(
    policies: list[list[dict[str, Any]]], requests: list[dict[str, Any]]
) -> None:
    """AG-08: 5,000 requests are judged as the reference model judges them, twice the same."""
    made = Rules.compile([Policy(str(n), tuple(raw)) for n, raw in enumerate(policies)])
    for request in requests:
        expected = reference(policies, request)
        assert ours(made, request) == expected
        assert ours(made, request) == expected  # again, now from the kept track


# ---- compiling and checking -------------------------------------------------------------------


@pytest.mark.clause("X-24")
@pytest.mark.parametrize(
    ("rule", "code", "path"),
    [
        ({"decision": "allow", "where": "{{ x"}, "policy.bad_expression", "/rules/0/where"),
        ({"decision": "allow", "where": "{{ a ** 2 }}"}, "policy.bad_expression", "/rules/0/where"),
        ({"decision": "allow", "where": 5}, "policy.bad_expression", "/rules/0/where"),
        ({"decision": "maybe"}, "policy.bad_rule", "/rules/0/decision"),
        ({"decision": "allow", "when": {"efect": "x"}}, "policy.bad_rule", "/rules/0/when/efect"),
    ],
)
def test_bad_rules_are_refused(rule: dict[str, Any], code: str, path: str) -> None:
    """A rule that cannot be judged is refused when it is compiled, and found by the checker."""
    with pytest.raises(BadDefinition) as caught:
        rules(rule)
    assert (caught.value.code, caught.value.where["path"]) == (code, path)
    found = policy_findings([Policy("p/q@1", (rule,))])
    assert [(one[0], one[1]) for one in found] == [(code, "p/q@1#" + path)]


@pytest.mark.clause("X-03")
def test_at_most_a_thousand_rules() -> None:
    """A thousand rules over all policies are taken, one more is refused."""
    full = Policy("p/q@1", (ALLOW,) * 500)
    Rules.compile([full, full])
    with pytest.raises(BadDefinition) as caught:
        Rules.compile([full, full, Policy("p/r@1", (ALLOW,))])
    assert caught.value.code == "policy.too_many_rules"


UNREACHABLE = [
    ([ALLOW, ALLOW], [1]),
    ([{**ALLOW, "where": "{{ true }}"}, ALLOW], []),
    ([ALLOW, {**ALLOW, "where": "{{ true }}"}], [1]),
    ([ALLOW, {**ALLOW, "when": {"effect": "a"}}], [1]),
    ([{**ALLOW, "when": {"effect": "a"}}, ALLOW], []),
    ([{**ALLOW, "when": {"effect": "a*"}}, {**ALLOW, "when": {"effect": "ab"}}], [1]),
    ([{**ALLOW, "when": {"effect": "a*"}}, {**ALLOW, "when": {"effect": "ab*"}}], [1]),
    ([{**ALLOW, "when": {"effect": "ab*"}}, {**ALLOW, "when": {"effect": "a*"}}], []),
    ([ALLOW, {**ALLOW, "when": {"origin": "system"}}], []),
    ([{**ALLOW, "when": {"origin": "*"}}, ALLOW, {**ALLOW, "when": {"origin": "system"}}], [1, 2]),
    ([{**ALLOW, "when": {"tags": ["a", "b"]}}, {**ALLOW, "when": {"tags": ["b"]}}], [1]),
    ([{**ALLOW, "when": {"tags": ["a"]}}, {**ALLOW, "when": {"tags": ["a", "b"]}}], []),
]


@pytest.mark.clause("X-24", "K-07")
@pytest.mark.parametrize(("raw", "dead"), UNREACHABLE, ids=range(len(UNREACHABLE)))
def test_dead_rules_are_named(raw: list[dict[str, Any]], dead: list[int]) -> None:
    """MO-15 (policy.unreachable): a rule behind a broader unconditional one is named, no other."""
    found = policy_findings([Policy("p/q@1", tuple(raw))])
    assert [(code, path) for code, path, _ in found] == [
        ("policy.unreachable", f"p/q@1#/rules/{index}") for index in dead
    ]


@pytest.mark.clause("X-24")
def test_dead_rules_are_found_across_policies() -> None:
    """Policies are read as one list, so a rule may hide one of a later policy."""
    found = policy_findings([Policy("p/a@1", (ALLOW,)), Policy("p/b@1", (ALLOW,))])
    assert [one[1] for one in found] == ["p/b@1#/rules/0"]


@pytest.mark.clause("X-24")
def test_an_unconditional_allow_is_cheap() -> None:
    """AG-14 (policy part): of 1,000 rules a judgement looks only at those of its names, so that the
    999 of other effects are not even asked for; `tally bench admit` tells the time.
    """
    other = [{**ALLOW, "when": {"effect": f"x/{n}@1"}} for n in range(999)]
    made = rules(*other, ALLOW)
    assert answer(made.judge(FACTS)) == "allow"
    object.__setattr__(made, "rules", ())
    assert answer(made.judge(FACTS)) == "allow", "the rules are not walked again"
    assert answer(Rules.compile([]).judge(FACTS)) != "allow", "control: no rule, no yes"
