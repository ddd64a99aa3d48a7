"""The door of the API: Host, Origin, tokens, and paths that try to be others."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tallystick.api import who
from tallystick.api.refusals import NoIdentity, NoRoute, WrongHost, WrongMethod
from tallystick.api.routes import Route, Table
from tallystick.api.who import Door, Identity, Tokens
from tallystick.errors import Forbidden, TallyError


async def nothing(request: Any) -> Any:
    raise AssertionError("no request gets here")


def table() -> Table:
    return Table(
        [
            Route("GET", "/v1/worlds", "read", nothing, "all worlds"),
            Route("GET", "/v1/worlds/{w}/cells/{workflow}/{key}", "read", nothing, "one cell"),
            Route("POST", "/v1/worlds/{w}/cells/{workflow}/{key}/skip", "operate", nothing, "skip"),
        ]
    )


def code_of(error: pytest.ExceptionInfo[TallyError]) -> str:
    return error.value.code


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("scope", ["", "root", "OPEN", "read "])
def test_a_route_without_a_scope_cannot_be_made(scope: str) -> None:
    """ND-20: the table is the authorisation table; what has no scope is no route."""
    with pytest.raises(ValueError, match="needs a scope"):
        Route("GET", "/v1/secrets", scope, nothing, "all secrets")


def test_a_path_leads_to_one_route() -> None:
    """ND-20: named segments are read, an escaped slash stays inside its segment."""
    raw = b"/v1/worlds/main/cells/com.acme%2Forder@1/%22a%20b%22"
    route, named = table().find("GET", raw)
    assert route.says == "one cell"
    assert named == {"w": "main", "workflow": "com.acme/order@1", "key": '"a b"'}
    with pytest.raises(ValueError, match="twice"):
        Table([table().routes[0], table().routes[0]])
    with pytest.raises(ValueError, match="elsewhere"):
        Table([*table().routes, Route("GET", "/v1/worlds/{v}", "read", nothing, "")])


TRICKS = [
    b"",
    b"/",
    b"v1/worlds",
    b"//v1/worlds",
    b"/v1//worlds",
    b"/v1/worlds/",
    b"/v1/worlds//",
    b"/V1/worlds",
    b"/v1/%77orlds",
    b"/v1/./worlds",
    b"/v1/x/../worlds",
    b"/v1/worlds;a=b",
    b"/v1/worlds%00",
    b"/v1/worlds%2f",
    b"/v1/worlds/main/cells/a/..",
    b"/v1/worlds/main/cells/a/%2e%2e",
    b"/v1/worlds/main/cells/a/%",
    b"/v1/worlds/main/cells/a/%zz",
    b"/v1/worlds/main/cells/a/%ff",
    b"/v1/worlds/main/cells/a/%0d%0a",
    b"/v1/worlds/main/cells/a/" + b"x" * 4097 + b"-",
    b"/v1/worlds/main/cells//b",
    b"http://127.0.0.1/v1/worlds",
]


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("raw", TRICKS)
def test_a_path_trick_reaches_nothing(raw: bytes) -> None:
    """ND-20: no other spelling of a path reaches its route."""
    with pytest.raises(NoRoute):
        table().find("GET", raw)


def test_a_method_is_part_of_the_route() -> None:
    """ND-20: a path answers to its methods only, and says which."""
    with pytest.raises(WrongMethod) as refused:
        table().find("DELETE", b"/v1/worlds")
    assert refused.value.where == {"allow": "GET, HEAD"}


GOOD_HOSTS = [b"127.0.0.1", b"127.0.0.1:8255", b"LOCALHOST:1", b"[::1]:80", b"tally.example"]
BAD_HOSTS = [
    None,
    b"",
    b"evil.example",
    b"127.0.0.1.evil.example",
    b"localhost.",
    b"localhost:",
    b"localhost:99999999",
    b"user@localhost",
    b"localhost/x",
    b"localhost\x00",
    b"[::1",
    b"0.0.0.0",
    b"2130706433",
    b"localhost, evil.example",
    "locälhost".encode(),
]


@pytest.mark.clause("X-24")
def test_hosts() -> None:
    """ND-20, AT-20: only our own names are answered; a rebound name is 421."""
    door = Door(["tally.example"])
    for host in GOOD_HOSTS:
        door.check(host, None, None)
    for host in BAD_HOSTS:  # type: ignore[assignment]
        with pytest.raises(WrongHost):
            door.check(host, None, None)


@pytest.mark.clause("X-24")
def test_origins() -> None:
    """ND-20, AT-20: a page of another origin is refused, whatever its browser says."""
    door = Door()
    door.check(b"localhost:8255", b"http://localhost:8255", b"same-origin")
    door.check(b"localhost:8255", None, b"none")
    bad = [
        (b"null", None),
        (b"http://evil.example", None),
        (b"https://localhost:8255", None),
        (b"http://localhost:3000", None),
        (b"http://localhost", None),
        (b"", None),
        (None, b"cross-site"),
        (None, b"same-site"),
        (b"http://localhost:8255", b"cross-site"),
    ]
    for origin, site in bad:
        with pytest.raises(Forbidden):
            door.check(b"localhost:8255", origin, site)


def known(tokens: Tokens, **fields: Any) -> str:
    """A token that the node knows."""
    ident = who.new_id()
    secret = who.new_secret(ident)
    given: dict[str, Any] = {"principal": "alice", "scopes": frozenset({"read"}), "worlds": ("*",)}
    tokens.put(who.hash_of(secret), Identity(ident, **(given | fields)))
    return secret


@pytest.mark.clause("X-24")
def test_tokens() -> None:
    """ND-20: a token is known whole or not at all; expired and forgotten ones are refused."""
    tokens = Tokens()
    secret = known(tokens)
    found = tokens.identify(b"Bearer " + secret.encode())
    assert found.principal == "alice"
    bad = [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"bearer " + secret.encode(),
        b"Basic " + secret.encode(),
        b"Bearer " + secret.encode() + b" ",
        b"Bearer " + secret.encode()[:-1],
        b"Bearer " + secret.encode()[:-1] + (b"A" if secret[-1] != "A" else b"B"),
        b"Bearer " + who.new_secret(found.token).encode(),
        b"Bearer " + secret.upper().encode(),
        b"Bearer tly_x_" + b"\xff" * 43,
    ]
    for header in bad:
        with pytest.raises(NoIdentity):
            tokens.identify(header)
    assert tokens.forget(found.token)
    assert not tokens.forget(found.token)
    with pytest.raises(NoIdentity) as refused:
        tokens.identify(b"Bearer " + secret.encode())
    assert code_of(refused) == "auth.unknown_token"


def test_expiry() -> None:
    """ND-20: a token ends at its time."""
    tokens = Tokens()
    late = known(tokens, expires_ns=time.time_ns() - 1)
    with pytest.raises(NoIdentity) as refused:
        tokens.identify(b"Bearer " + late.encode())
    assert code_of(refused) == "auth.expired_token"
    early = known(tokens, expires_ns=time.time_ns() + 3_600_000_000_000)
    assert tokens.identify(b"Bearer " + early.encode()).principal == "alice"


def test_a_token_holds_256_bits_and_is_kept_as_a_hash() -> None:
    """04 section 11: 43 characters of chance, no two alike, and only a hash of them is kept."""
    made = {who.new_secret("a") for _ in range(100)}
    assert len(made) == 100
    assert {len(secret) for secret in made} == {len("tly_a_") + 43}
    assert len(who.hash_of(made.pop())) == 32
