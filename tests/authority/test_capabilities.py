"""Slots, grants and enforcers: who may ask, and how much."""

# tidy: one table with a row per field of each capability.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tallystick.authority.attenuate import attenuate
from tallystick.authority.capabilities import CapabilityYes, judge_capability
from tallystick.authority.denial import Denial
from tallystick.authority.enforcers import EnforcerAnswer
from tallystick.errors import TickFault
from tallystick.model.catalogue import Effect, Grant
from tests.authority.grants import NOW, WORKFLOW, code_of, effect, grant, judge, request

HTTP = {"method": "GET", "url": "https://api.example/v1", "headers": None, "body": None}


@pytest.mark.clause("K-29", "X-24")
def test_slots_lead_to_one_grant() -> None:
    """AG-05: unbound, ambiguous and wrong type are three codes; the right slot is found."""
    web, other, timer = grant("http.out", "web"), grant("http.out", "other"), grant("timer", "t")
    table = [
        ({}, {}, None, "cap.unbound"),
        ({"a": timer}, {}, None, "cap.unbound"),
        ({"a": web}, {}, "b", "cap.unbound"),
        ({"a": web, "b": other}, {}, None, "cap.ambiguous"),
        ({"a": timer}, {}, "a", "cap.type_mismatch"),
        ({"a": web}, {"a": "timer"}, "a", "cap.type_mismatch"),
        ({"a": web}, {"a": "timer"}, None, "cap.type_mismatch"),
        ({"a": web, "b": timer}, {"a": "http.out"}, None, "ok"),
        ({"a": web, "b": other}, {}, "b", "ok"),
    ]
    for slots, declared, slot, code in table:
        asked = request(effect("http.request"), web, HTTP)
        asked = asked._replace(slots=slots, declared=declared, cap_slot=slot)
        judged = judge_capability(asked)
        assert code_of(judged) == code
        if code == "ok":
            assert isinstance(judged, CapabilityYes)
            assert judged.grant.cap_type == "http.out"
        if slot == "b" and code == "ok":
            assert judged == CapabilityYes("b", other)


@pytest.mark.clause("K-29")
def test_expired_and_revoked_have_their_codes() -> None:
    """AG-05: expiry is at its very nanosecond, revocation by name; the same when asked again."""
    held = replace(grant("http.out"), expires_ns=NOW)
    for now, code in ((NOW - 1, "ok"), (NOW, "cap.expired"), (NOW + 1, "cap.expired")):
        judged = [judge("http.request", held, HTTP, logical_now_ns=now) for _ in range(2)]
        assert [code_of(one) for one in judged] == [code, code]
        assert judged[0] == judged[1]
    held = grant("http.out")
    assert code_of(judge("http.request", held, HTTP, revoked={"g"})) == "cap.revoked"
    assert code_of(judge("http.request", held, HTTP, revoked={"h"})) == "ok"


@pytest.mark.clause("K-29", "X-17")
def test_revoking_reaches_grandchildren() -> None:
    """AG-05: a derived grant dies with any ancestor, by name, by expiry, or when it is gone."""
    line = [grant("http.out", "g0")]
    for n in range(1, 4):
        made = attenuate(line[-1], None, None, f"g{n}")
        assert isinstance(made, Grant)
        line.append(made)
    known = {one.name: one for one in line}
    child = line[-1]
    assert code_of(judge("http.request", child, HTTP, grants=known)) == "ok"
    for one in line:
        judged = judge("http.request", child, HTTP, grants=known, revoked=[one.name])
        assert code_of(judged) == "cap.revoked"
        ended = {**known, one.name: replace(one, expires_ns=NOW)}
        held = ended[child.name]
        assert code_of(judge("http.request", held, HTTP, grants=ended)) == "cap.expired"
    gone = {name: one for name, one in known.items() if name != "g1"}
    assert code_of(judge("http.request", child, HTTP, grants=gone)) == "cap.revoked"
    looped = {**known, "g0": replace(line[0], parent="g3")}
    assert code_of(judge("http.request", child, HTTP, grants=looped)) == "cap.revoked"


@pytest.mark.clause("K-29", "X-17")
def test_an_ancestor_narrowed_later_binds_its_children() -> None:
    """A grant replaced by a narrower one under its name narrows what was derived from it."""
    wide = grant("http.out", "g0")
    child = attenuate(wide, None, None, "g1")
    assert isinstance(child, Grant)
    narrow = grant("http.out", "g0", hosts=["other.example"])
    judged = judge("http.request", child, HTTP, grants={"g0": narrow})
    assert isinstance(judged, Denial)
    assert (judged.code, judged.path) == ("cap.exceeded", "hosts")


@pytest.mark.clause("K-29")
def test_custom_enforcers_answer_and_fault() -> None:
    """A custom enforcer's no is `cap.exceeded`; its fault, or its absence, denies."""
    held = replace(grant("http.out"), enforcer=("com.acme/caps@1", "judge"))
    seen: list[Mapping[str, Any]] = []

    def enforce(_grant: Grant, question: Mapping[str, Any]) -> EnforcerAnswer:
        seen.append(question)
        return EnforcerAnswer(ok=question["params"]["method"] == "GET", field="m", message="no")

    def broken(_grant: Grant, _question: Mapping[str, Any]) -> EnforcerAnswer:
        raise TickFault("out of fuel", code="fuel")

    assert code_of(judge("http.request", held, HTTP, enforce=enforce)) == "ok"
    judged = judge("http.request", held, {**HTTP, "method": "PUT"}, enforce=enforce)
    assert isinstance(judged, Denial)
    assert (judged.code, judged.path, judged.stage) == ("cap.exceeded", "m", "capability")
    assert sorted(seen[0]) == sorted(
        ("cap", "grant", "cap_params", "effect", "params", "origin", "logical_now_ns")
    )
    assert seen[0]["origin"] == WORKFLOW
    assert code_of(judge("http.request", held, HTTP, enforce=broken)) == "cap.enforcer_fault"
    assert code_of(judge("http.request", held, HTTP)) == "cap.enforcer_fault"
    lost = replace(held, enforcer=("sys/caps@1", "nothing"))
    assert code_of(judge("http.request", lost, HTTP)) == "cap.enforcer_fault"
    assert code_of(judge("http.request", replace(held, enforcer=None), HTTP)) == "ok"


HORIZON = 1000
SQL = {"db": "main", "sql": "select * from orders", "args": []}
LLM = {"provider": "local", "model": "m-large", "messages": [], "max_tokens": 100, "options": None}
RUN = {"argv": ["git", "log"], "cwd": None, "env": None, "net": None}
ASK = {"title": "t", "body": "b", "to": ["ops"], "expires_at_ns": NOW + 5}
FILE = {"workspace": "w", "path": "docs/a.md", "content": b"12345"}
PATCH = {"add_def": {"kind": "schema", "node": {"name": "com.acme/A@1"}}}

# (effect, cap, grant params, request params, the field that says no or None for yes)
TABLE: list[tuple[str, str, dict[str, Any], dict[str, Any], str | None]] = [
    ("http.request", "http.out", {}, HTTP, None),
    ("http.request", "http.out", {"hosts": ["api.example"]}, HTTP, None),
    ("http.request", "http.out", {"hosts": ["*.example"]}, HTTP, None),
    ("http.request", "http.out", {"hosts": ["example"]}, HTTP, "hosts"),
    ("http.request", "http.out", {"hosts": []}, HTTP, "hosts"),
    ("http.request", "http.out", {"schemes": ["http"]}, HTTP, "schemes"),
    ("http.request", "http.out", {"ports": [443]}, HTTP, None),
    ("http.request", "http.out", {"ports": [80]}, HTTP, "ports"),
    ("http.request", "http.out", {"methods": ["POST"]}, HTTP, "methods"),
    ("http.request", "http.out", {"methods": ["GET"]}, {**HTTP, "method": "get"}, "methods"),
    ("http.request", "http.out", {}, {**HTTP, "method": "CONNECT"}, "methods"),
    ("http.request", "http.out", {}, {**HTTP, "method": "GET x"}, "methods"),
    ("http.request", "http.out", {}, {**HTTP, "method": "G\u00c9T"}, "methods"),
    ("http.request", "http.out", {"path_prefixes": ["/v1"]}, HTTP, None),
    ("http.request", "http.out", {"path_prefixes": ["/v"]}, HTTP, "path_prefixes"),
    ("http.request", "http.out", {"path_prefixes": ["/v1/"]}, HTTP, "path_prefixes"),
    ("http.request", "http.out", {"max_body_bytes": 2}, {**HTTP, "body": b"123"}, "max_body_bytes"),
    ("http.request", "http.out", {"max_body_bytes": 3}, {**HTTP, "body": b"123"}, None),
    ("http.request", "http.out", {"hosts": ["a"]}, {"method": "GET"}, "hosts"),
    ("http.request", "http.out", {}, {"amount": 3}, None),
    (
        "http.request",
        "http.out",
        {"hosts": ["api.example"]},
        {**HTTP, "headers": {"HOST": {"$tag": "literal", "$value": "x"}}},
        "hosts",
    ),
    (
        "http.request",
        "http.out",
        {"cidrs": ["127.0.0.0/8"]},
        {**HTTP, "url": "http://127.0.0.1:9000/x"},
        None,
    ),
    (
        "http.request",
        "http.out",
        {"cidrs": ["127.0.0.1/32"]},
        {**HTTP, "url": "http://localhost:9000/x"},
        None,
    ),
    ("http.request", "http.out", {"cidrs": ["::1/128"]}, {**HTTP, "url": "http://[::1]/"}, None),
    (
        "http.request",
        "http.out",
        {"hosts": ["::1"], "cidrs": ["::/64"]},
        {**HTTP, "url": "http://[0::1]/"},
        None,
    ),
    ("http.request", "http.out", {"cidrs": ["10.0.0.0/8"]}, {**HTTP, "url": "http://svc/"}, None),
    ("http.request", "http.out", {}, {**HTTP, "url": "https://8.8.8.8/"}, None),
    (
        "http.request",
        "http.out",
        {"hosts": ["*.8.8"]},
        {**HTTP, "url": "https://8.8.8.8/"},
        "hosts",
    ),
    ("file.write", "file", {}, FILE, None),
    ("file.write", "file", {"roots": ["w"], "ops": ["write"], "max_bytes": 5}, FILE, None),
    ("file.write", "file", {"roots": ["v"]}, FILE, "roots"),
    ("file.write", "file", {"ops": ["read", "list"]}, FILE, "ops"),
    ("file.delete", "file", {"ops": ["write"]}, FILE, "ops"),
    ("file.read", "file", {"ops": ["read"]}, {"workspace": "w", "path": "a", "max": None}, None),
    (
        "file.read",
        "file",
        {"max_bytes": 9},
        {"workspace": "w", "path": "a", "max": 10},
        "max_bytes",
    ),
    ("file.write", "file", {"max_bytes": 4}, FILE, "max_bytes"),
    ("file.write", "file", {"path_prefixes": ["docs"]}, FILE, None),
    ("file.write", "file", {"path_prefixes": ["doc"]}, FILE, "path_prefixes"),
    ("file.write", "file", {"globs": ["docs/*.md"]}, FILE, None),
    ("file.write", "file", {"globs": ["./**/*.{txt,md}"]}, FILE, None),
    ("file.write", "file", {"globs": ["*.md", "docs/?"]}, FILE, "globs"),
    ("file.write", "file", {"globs": ["docs/{a,b"]}, FILE, "globs"),
    ("llm.generate", "llm", {"models": ["m-*"], "max_tokens": 100}, LLM, None),
    ("llm.generate", "llm", {"models": ["m"]}, LLM, "models"),
    ("llm.generate", "llm", {"models": ["m-l*"]}, LLM, "models"),
    ("llm.generate", "llm", {"providers": ["openai"]}, LLM, "providers"),
    ("llm.generate", "llm", {"max_tokens": 99}, LLM, "max_tokens"),
    ("llm.generate", "llm", {"max_tokens": 99}, {**LLM, "max_tokens": None}, "max_tokens"),
    ("llm.generate", "llm", {"tools": ["a"]}, {**LLM, "options": {"tools": [{"name": "a"}]}}, None),
    ("llm.generate", "llm", {"tools": ["a"]}, {**LLM, "options": {"tools": ["a", "b"]}}, "tools"),
    ("shell.run", "shell", {}, RUN, None),
    ("shell.run", "shell", {"programs": ["git"]}, RUN, None),
    ("shell.run", "shell", {"programs": ["/bin/git"]}, RUN, "programs"),
    ("shell.run", "shell", {}, {**RUN, "argv": []}, "programs"),
    ("shell.run", "shell", {}, {**RUN, "argv": "rm -rf /"}, "text"),
    ("shell.run", "shell", {"text": True}, {**RUN, "argv": "ls"}, None),
    ("shell.run", "shell", {}, {**RUN, "net": True}, "network"),
    ("shell.run", "shell", {"network": True}, {**RUN, "net": True}, None),
    ("shell.run", "shell", {"env": ["A"]}, {**RUN, "env": {"A": "", "LD_PRELOAD": ""}}, "env"),
    ("shell.run", "shell", {}, {**RUN, "cwd": "../x"}, "cwd"),
    ("python.run", "python", {"entrypoints": ["main"]}, {"code": "", "entry": None}, None),
    ("python.run", "python", {"entrypoints": ["main"]}, {"code": "", "entry": "x"}, "entrypoints"),
    ("python.run", "python", {}, {"code": "", "net": True}, "network"),
    (
        "sql.query",
        "sql",
        {"databases": ["main"], "verbs": ["read"], "tables": ["orders"]},
        SQL,
        None,
    ),
    ("sql.query", "sql", {"databases": ["other"]}, SQL, "databases"),
    ("sql.query", "sql", {"verbs": ["read"]}, {**SQL, "mode": "write"}, "verbs"),
    ("sql.query", "sql", {"tables": ["users"]}, SQL, "tables"),
    ("blob.put", "blob", {"max_bytes": 2}, {"bytes": b"123"}, "max_bytes"),
    ("blob.put", "blob", {"max_bytes": 3}, {"bytes": b"123"}, None),
    ("blob.put", "blob", {"namespaces": ["a"]}, {"bytes": b"", "namespace": "b"}, "namespaces"),
    ("timer.set", "timer", {"max_horizon_ns": HORIZON}, {"deliver_at_ns": NOW + HORIZON}, None),
    (
        "timer.set",
        "timer",
        {"max_horizon_ns": HORIZON},
        {"deliver_at_ns": NOW + HORIZON + 1},
        "max_horizon_ns",
    ),
    ("human.ask", "human", {"groups": ["ops"], "max_open_ns": 5}, ASK, None),
    ("human.ask", "human", {"groups": ["dev"]}, ASK, "groups"),
    ("human.ask", "human", {"groups": ["ops"]}, {**ASK, "to": []}, "groups"),
    ("human.ask", "human", {"max_open_ns": 4}, ASK, "max_open_ns"),
    ("human.ask", "human", {"max_open_ns": 4}, {**ASK, "expires_at_ns": None}, "max_open_ns"),
    ("workflow.spawn", "workflow", {"workflows": ["a/b@1"]}, {"workflow": "a/b@1"}, None),
    ("workflow.spawn", "workflow", {"workflows": ["a/*"]}, {"workflow": "a/b@1"}, None),
    ("workflow.spawn", "workflow", {"workflows": ["a/b"]}, {"workflow": "a/b@1"}, "workflows"),
    ("workflow.spawn", "workflow", {"workflows": ["a/*"]}, {"workflow": None}, "workflows"),
    ("llm.generate", "llm", {"models": ["m"]}, {**LLM, "model": None}, "models"),
    ("workflow.spawn", "workflow", {"worlds": []}, {"workflow": "a/b@1", "world": "w"}, "worlds"),
]


@pytest.mark.clause("K-29", "X-24")
@pytest.mark.parametrize(("name", "cap", "fields", "params", "field"), TABLE, ids=range(len(TABLE)))
def test_each_field_of_each_capability(
    name: str, cap: str, fields: dict[str, Any], params: dict[str, Any], field: str | None
) -> None:
    """AG-05: each row of the table of 06 section 2 says yes, or no with the field named."""
    judged = judge(name, grant(cap, **fields), params)
    if field is None:
        assert code_of(judged) == "ok"
    else:
        assert isinstance(judged, Denial)
        assert (judged.code, judged.path) == ("cap.exceeded", field)
        assert field in judged.message


@pytest.mark.clause("K-29")
def test_governance_grants_judge_the_patch() -> None:
    """A governance grant bounds operations, kinds, names and sections of a proposal."""
    propose = replace(
        effect("http.request"), name="sys/governance.propose@1", cap_type="governance"
    )
    apply = replace(propose, name="sys/governance.apply@1")
    moved = {
        "replace_def": {"kind": "schema", "name": "com.acme/A@1", "new_node": {"name": "x/A@1"}}
    }
    section = {"set_section": {"section": "grants", "value": []}}
    table: list[tuple[Effect, dict[str, Any], list[Any] | None, str | None]] = [
        (propose, {"ops": ["apply"]}, [PATCH], "ops"),
        (apply, {"ops": ["apply"], "def_kinds": []}, [], None),
        (propose, {"def_kinds": ["schema"], "name_prefixes": ["com.acme/"]}, [PATCH], None),
        (propose, {"def_kinds": ["workflow"]}, [PATCH], "def_kinds"),
        (propose, {"name_prefixes": ["org."]}, [PATCH], "name_prefixes"),
        (propose, {"name_prefixes": ["com.acme/"]}, [moved], "name_prefixes"),
        (propose, {"sections": ["limits"]}, [section], "sections"),
        (propose, {"sections": ["limits"]}, None, "sections"),
        (propose, {}, None, None),
    ]
    for asked, fields, patches, field in table:
        params = {} if patches is None else {"patch": {"patches": patches}}
        judged = judge_capability(request(asked, grant("governance", **fields), params))
        assert (judged.path if isinstance(judged, Denial) else None) == field


@pytest.mark.clause("X-24")
def test_a_plain_effect_still_needs_its_grant() -> None:
    """D6: the parameterless capability asks nothing more, and without it the answer is no."""
    assert code_of(judge("telemetry.emit", grant("effect"), {})) == "ok"
    bare = request(effect("telemetry.emit"), grant("effect"), {})._replace(slots={})
    assert code_of(judge_capability(bare)) == "cap.unbound"


SQL_TEXTS = [
    ("select 1", "read"),
    ("SELECT a FROM t WHERE b = ?", "read"),
    ("with x as (select 1) select * from x;", "read"),
    ("select replace(a, 'x', 'y') from t", "read"),
    ("explain select 1", "read"),
    ("select 'delete from t'", "read"),
    ("insert into t values (1)", "write"),
    ("with x as (delete from t returning *) select * from x", "write"),
    ("select * into t2 from t", "write"),
    ("pragma writable_schema = 1", "write"),
    ("replace into t values (1)", "write"),
    ("select load_extension('x')", "write"),
    ("explain analyze select 1", "write"),
    ("update t set a = 1", "write"),
    ("select 1; drop table t", None),
    ("select 1 -- x", None),
    ("select /*! 1 */ 2", None),
    ("select 'a\\' or 1'", None),
    ("select 'a", None),
    ("select $$x$$", None),
    ("", None),
    (";", None),
]


@pytest.mark.clause("K-29")
@pytest.mark.parametrize(("sql", "verb"), SQL_TEXTS)
def test_sql_is_read_only_when_it_plainly_is(sql: str, verb: str | None) -> None:
    """A statement is a read only when nothing in it could write; unsure texts are refused."""
    reads = code_of(judge("sql.query", grant("sql", verbs=["read"]), {**SQL, "sql": sql}))
    writes = code_of(judge("sql.query", grant("sql", verbs=["write"]), {**SQL, "sql": sql}))
    assert reads == ("ok" if verb == "read" else "cap.exceeded")
    assert writes == ("ok" if verb == "write" else "cap.exceeded")


@pytest.mark.clause("K-29")
@pytest.mark.parametrize(
    "sql",
    [
        "select * from orders, users",
        "select * from orders o join users u on o.id = u.id",
        "select * from (select * from users) x",
        'select * from "users"',
        "select * from main.users",
        "select (select 1 from users)",
        "select * from orders where id in (select id from users)",
        "select * from orders as o, users as u",
        "select * from orders join (users) on 1 = 1",
        "select * from (select 1) x, users",
        "select * from orders join orders on (1 = 1), users",
        "select * from orders, lateral users",
        "table users",
    ],
)
def test_sql_tables_are_all_seen(sql: str) -> None:
    """A table named anywhere in the statement must be granted."""
    judged = judge("sql.query", grant("sql", tables=["orders"]), {**SQL, "sql": sql})
    assert code_of(judged) == "cap.exceeded"
