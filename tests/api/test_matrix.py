"""Every route, every bad identity, every trick: nothing is shown and nothing changes (ND-20)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from tallystick.api.routes import OPEN, SCOPES, SESSION, Route
from tallystick.api.table import TABLE
from tallystick.api.who import new_secret
from tests.api.rig import Served, bearer, serving

CLOSED = [r for r in TABLE.routes if r.scope not in (OPEN, SESSION)]
BROWSER = [r for r in TABLE.routes if r.scope == SESSION]


def path_of(route: Route, world: str = "main") -> str:
    """A path that leads to the route."""
    named = {"{w}": world, "{workflow}": "shop%2Forders@1", "{hash}": "sha256:" + "0" * 64}
    parts = [named.get(p, "7" if p.startswith("{") else p) for p in route.parts]
    return "/" + "/".join(parts)


async def ask(served: Served, route: Route, path: str, headers: dict[str, str]) -> httpx.Response:
    """One request without the rig's own token."""
    request = served.http.build_request(route.method, path)
    request.headers.pop("authorization")
    request.headers.update(headers)
    return await served.http.send(request)


def quiet(answer: httpx.Response, *statuses: int) -> None:
    """A refusal: a problem with a code, and nothing of the node in it."""
    where = f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    assert answer.status_code in statuses, where
    assert answer.headers["content-type"] == "application/problem+json", where
    assert answer.json()["code"].split(".")[0] in ("auth", "request"), where


async def bad_tokens(served: Served, scope: str) -> tuple[str, str, str]:
    """A token with every scope but this, one with it that has expired, one for another world."""
    others = [each for each in SCOPES if each != scope]
    return (
        await served.token(*others),
        await served.token(scope, expires_ns=time.time_ns() + 1),
        await served.token(scope, worlds=["other"]),
    )


def identities(
    served: Served, route: Route, tokens: tuple[str, str, str]
) -> list[tuple[str, dict[str, str], int]]:
    """Five bad identities for a route: name, headers, and the status they deserve."""
    lacking, late, elsewhere = tokens
    found = [
        ("nobody", {}, 401),
        ("unknown", bearer(new_secret("local")), 401),
        ("expired", bearer(late), 401),
        ("lacking", bearer(lacking), 403),
    ]
    if route.of_world or route.whole_node:
        found.append(("elsewhere", bearer(elsewhere), 403))
    else:
        found.append(("basic", {"Authorization": "Basic " + served.api.local}, 401))
    return found


@pytest.mark.clause("X-24")
def test_every_route_refuses_bad_identities(tmp_path: Path) -> None:
    """ND-20, AT-19: all routes x 5 bad identities: refused, and not one record is written."""

    async def main() -> None:
        async with serving(tmp_path, worlds=("main", "other")) as served:
            before = (await served.head(), await served.root(), sorted(served.node.names))
            asked = 0
            tokens = {scope: await bad_tokens(served, scope) for scope in SCOPES}
            for route in CLOSED:
                for _, headers, status in identities(served, route, tokens[route.scope]):
                    quiet(await ask(served, route, path_of(route), headers), status)
                    asked += 1
            assert asked == 5 * len(CLOSED) >= 5 * 35
            for route in BROWSER:  # no token at all is a session
                everything = ("all", bearer(served.api.local), 401)
                for _, headers, _ in [everything, *identities(served, route, tokens["read"])]:
                    quiet(await ask(served, route, path_of(route), headers), 401)
            after = (await served.head(), await served.root(), sorted(served.node.names))
            assert before == after

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_every_route_answers_its_own_scope(tmp_path: Path) -> None:
    """ND-20 control: with the scope of the route, alone, no route says 401 or 403."""

    async def main() -> None:
        async with serving(tmp_path, worlds=("main",)) as served:
            for route in CLOSED:
                if route.path.endswith("/feed") or (route.method, route.path[-3:]) == (
                    "DELETE",
                    "{w}",
                ):
                    continue
                token = await served.token(route.scope)
                answer = await ask(served, route, path_of(route), bearer(token))
                assert answer.status_code not in (401, 403, 405, 500), (
                    f"{route.method} {route.path}: {answer.status_code} {answer.text}"
                )

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_the_open_routes_are_exactly_these() -> None:
    """10 section 6: what is open is listed by name; a new open route fails here."""
    assert [r.path for r in TABLE.routes if r.scope == OPEN] == ["/v1/health", "/v1/session"]


def spellings(path: str) -> list[str]:
    """Other spellings of a path, all of which must lead nowhere."""
    head, _, tail = path.rpartition("/")
    return [
        path + "/",
        path + "//",
        "/" + path,
        path.replace("/v1/", "/v1//") if "/v1/" in path else "//metrics",
        path.replace("/v1/", "/V1/") if "/v1/" in path else "/Metrics",
        f"{head}/%2e/{tail}",
        f"{head}/x/%2e%2e/{tail}",
        f"{head}/.;/{tail}",
        path + "%00",
        path + ".json",
        f"/%2f{path[1:]}",
    ]


@pytest.mark.clause("X-24")
def test_path_tricks_reach_nothing_without_a_token(tmp_path: Path) -> None:
    """ND-20, AT-19: no spelling of any path is a way around the token."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            before = (await served.head(), await served.root())
            for route in CLOSED:
                for path in spellings(path_of(route)):
                    quiet(await ask(served, route, path, {}), 401)
            assert (await served.head(), await served.root()) == before

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_hosts_and_origins_are_asked_of_every_route(tmp_path: Path) -> None:
    """ND-20, AT-20: a foreign Host is 421, a foreign origin 403, open route or not, good token."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            good = bearer(served.api.local)
            tricks = [
                ({"Host": "evil.example"}, 421),
                ({"Host": "127.0.0.1.evil.example"}, 421),
                ({"Origin": "http://evil.example"}, 403),
                ({"Origin": "null"}, 403),
                ({"Sec-Fetch-Site": "cross-site"}, 403),
            ]
            for route in TABLE.routes:
                for more, status in tricks:
                    quiet(await ask(served, route, path_of(route), good | more), status)

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_a_world_kept_from_a_token_looks_like_none(tmp_path: Path) -> None:
    """AT-27: a token of one world learns nothing of another, not even whether it is there."""

    async def main() -> None:
        async with serving(tmp_path, worlds=("main", "other")) as served:
            token = bearer(await served.token("read", "send", worlds=["other"]))
            hidden = await served.http.get("/v1/worlds/main", headers=token)
            absent = await served.http.get("/v1/worlds/nowhere", headers=token)
            assert hidden.status_code == absent.status_code == 403
            ours, theirs = hidden.json(), absent.json()
            ours["where"] = theirs["where"] = None
            assert ours == theirs
            rows = (await served.http.get("/v1/worlds", headers=token)).json()["items"]
            assert [row["name"] for row in rows] == ["other"]
            by_id = f"/v1/worlds/{served.node.resolve('other')}"
            assert (await served.http.get(by_id, headers=token)).status_code == 200
            by_id = f"/v1/worlds/{served.node.resolve('main')}"
            assert (await served.http.get(by_id, headers=token)).status_code == 403

    asyncio.run(main())
