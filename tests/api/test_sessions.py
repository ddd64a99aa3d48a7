"""Sessions of a browser: a code once, two halves always, and writes from our own page (09)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallystick.api.refusals import NoIdentity
from tallystick.api.sessions import CODE_NS, Sessions
from tallystick.api.who import Identity
from tests.api.rig import Served, serving
from tests.node.rig import Bank

W = "/v1/worlds/main"


async def code_of(served: Served, *scopes: str) -> tuple[str, str]:
    """A way in for a browser, and the id of the token behind it."""
    body = {"principal": "ada", "scopes": list(scopes or ("read", "send")), "ui": True}
    made = (await served.http.post("/v1/tokens", json=body)).json()
    assert made["login"]["path"] == f"/login#{made['login']['code']}"
    return made["login"]["code"], made["id"]


async def begun(served: Served, code: str) -> tuple[httpx.Response, dict[str, str]]:
    """The answer to a code, and the two halves as headers."""
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as page:
        got = await page.post("/v1/session", json={"code": code})
    if got.status_code != 201:
        return got, {}
    cookie = got.headers["set-cookie"].partition(";")[0]
    return got, {"Cookie": cookie, "X-Tally-Half": got.json()["half"]}


@pytest.mark.clause("X-24")
def test_a_code_opens_one_session_and_both_halves_are_needed(tmp_path: Path) -> None:
    """09 section 2: single use; the cookie is HttpOnly and Strict; either half alone is 401."""
    # tidy: one story, told in its order.

    async def main() -> None:
        # tidy: one story, told in its order.
        async with serving(tmp_path, Bank()) as served:
            code, _ = await code_of(served)
            got, halves = await begun(served, code)
            port = served.url.rpartition(":")[2]
            cookie = got.headers["set-cookie"]
            assert cookie.startswith(f"tally_{port}=")
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
            said = got.json()
            assert (said["principal"], said["scopes"]) == ("ada", ["read", "send"])
            spent, _ = await begun(served, code)
            assert (spent.status_code, spent.json()["code"]) == (401, "auth.code_spent")
            async with httpx.AsyncClient(base_url=served.url, trust_env=False) as page:
                assert (await page.get(W, headers=halves)).status_code == 200
                bad: list[dict[str, str]] = [
                    {"Cookie": halves["Cookie"]},
                    {"X-Tally-Half": halves["X-Tally-Half"]},
                    {**halves, "X-Tally-Half": "A" * 43},
                    {**halves, "Cookie": f"tally_{port}=" + "A" * 43},
                    {**halves, "Cookie": halves["Cookie"].replace(port, "1")},
                    {},
                ]
                for headers in bad:
                    refused = await page.get(W, headers=headers)
                    assert refused.status_code == 401, headers
                    assert (await page.get("/v1/none", headers=headers)).status_code == 401

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("X-24")
def test_a_session_writes_from_our_own_page_and_ends(tmp_path: Path) -> None:
    """09 section 2: own Origin and JSON, or nothing; scopes are the token's; it ends with both."""
    # tidy: one story, told in its order.
    event: dict[str, Any] = {"schema": "shop/Placed@1", "value": {"order_id": "a", "cents": 5}}

    async def main() -> None:
        # tidy: one story, told in its order.
        async with serving(tmp_path, Bank()) as served:
            code, token = await code_of(served)
            _, halves = await begun(served, code)
            own = {**halves, "Origin": served.url}
            async with httpx.AsyncClient(base_url=served.url, trust_env=False) as page:
                path = f"{W}/events"
                for headers, status in (
                    (halves, 403),
                    ({**halves, "Origin": "http://evil.example"}, 403),
                    ({**own, "Content-Type": "application/cbor"}, 415),
                    (own, 202),
                ):
                    got = await page.post(path, json=event, headers=headers)
                    assert got.status_code == status, got.text
                snap = await page.post(f"{W}/snapshots", json={}, headers=own)
                assert snap.json()["code"] == "auth.missing_scope"
                gone = await page.delete("/v1/session", headers=own)
                assert gone.status_code == 200
                assert (await page.get(W, headers=halves)).status_code == 401
                again, _ = await code_of(served), token
                _, other = await begun(served, again[0])
                assert (await page.get(W, headers=other)).status_code == 200
                assert (await served.http.delete(f"/v1/tokens/{again[1]}")).status_code == 200
                assert (await page.get(W, headers=other)).status_code == 401, "revoked with it"
                local = {"Authorization": f"Bearer {served.api.local}"}
                none = await page.delete("/v1/session", headers=local)
                assert none.json()["code"] == "auth.no_session", "a token is no session"

    asyncio.run(asyncio.wait_for(main(), 240))


def test_codes_and_sessions_end_by_time() -> None:
    """09 section 2: a code is good for 120 s, a session until it was idle for its time."""
    now = [0]
    sessions = Sessions(1_000, lambda: now[0])
    sessions.cookie = b"tally_1"
    who = Identity("t", "ada", frozenset({"read"}), ("*",))
    stale, until = sessions.code(who)
    assert until == CODE_NS
    now[0] = CODE_NS
    with pytest.raises(NoIdentity) as caught:
        sessions.begin(stale)
    assert caught.value.code == "auth.code_spent"
    made = sessions.begin(sessions.code(who)[0])
    given = (f"a=b; tally_1={made.cookie}".encode(), made.half.encode())
    for _ in range(3):
        now[0] += 900
        found = sessions.identify(*given)
        assert found is not None
        assert found.principal == "ada"
    now[0] += 1_000
    with pytest.raises(NoIdentity):
        sessions.identify(*given)
    assert sessions.identify(b"x=y", None) is None


def test_a_session_ends_with_its_token() -> None:
    """04 section 11: a token with an end gives no session a longer life, and no code either."""
    now = [0]
    sessions = Sessions(10_000, lambda: now[0])
    sessions.cookie = b"tally_1"
    who = Identity("t", "ada", frozenset({"read"}), ("*",), expires_ns=1_500)
    late, _ = sessions.code(who)
    made = sessions.begin(sessions.code(who)[0])
    assert made.expires_ns == 1_500
    given = (f"tally_1={made.cookie}".encode(), made.half.encode())
    now[0] = 1_499
    assert sessions.identify(*given) is not None
    now[0] = 1_500
    with pytest.raises(NoIdentity) as caught:
        sessions.identify(*given)
    assert caught.value.code == "auth.expired_token"
    with pytest.raises(NoIdentity) as caught:
        sessions.begin(late)
    assert caught.value.code == "auth.expired_token"
