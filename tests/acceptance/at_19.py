"""AT-19 auth-matrix (ND-20, RL-19): every route, every bad identity, every other spelling."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tallystick.api.routes import OPEN, SCOPES, SESSION, Route
from tallystick.api.table import TABLE
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place

CLOSED = [route for route in TABLE.routes if route.scope not in (OPEN, SESSION)]


def run(bench: Bench) -> dict[str, Any]:
    """Ask every route of the table as nobody, as a stranger, too late, and without the scope."""
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        place.send("o1", 2, "http://127.0.0.1:1/")
        assert place.tally("world", "create", "side", "--bundle", str(place.bundle)).returncode == 0
        place.ran()
        before = (place.root()["root"], _names(place))
        statuses: Counter[str] = Counter()
        let_in = []
        for method, path, who, bearer in _attempts(place, bench["spellings"]):
            status, body = asked(place, method, path, bearer)
            statuses[str(status)] += 1
            if status not in (400, 401, 403, 404, 405) or b'"items"' in body:
                let_in.append(f"{who}: {method} {path}: {status}")
        after = (place.root()["root"], _names(place))
    return {
        "routes": len(CLOSED),
        "asked": sum(statuses.values()),
        "statuses": dict(sorted(statuses.items())),
        "let_in": let_in,
        "changed": before != after,
    }


def _attempts(place: Place, more: int) -> Iterator[tuple[str, str, str, str | None]]:
    """Every route, by everybody who may not, in every spelling."""
    for route in CLOSED:
        for who, bearer in _identities(place, route).items():
            for path in _spellings(path_of(route), more):
                yield route.method, path, who, bearer


def _names(place: Place) -> list[str]:
    return sorted(str(row["name"]) for row in place.ask("GET", "/v1/worlds")[1]["items"])


def path_of(route: Route, world: str = "main") -> str:
    """A path that leads to the route."""
    named = {"{w}": world, "{workflow}": "kit%2Fcharge@1", "{hash}": "sha256:" + "0" * 64}
    return "/" + "/".join(named.get(p, "7" if p.startswith("{") else p) for p in route.parts)


def _spellings(path: str, more: int) -> list[str]:
    """The path, and other ways to write it."""
    head, _, tail = path.rpartition("/")
    others = [path + "/", "/" + path, f"{head}/%2e/{tail}", f"{head}/x/%2e%2e/{tail}", path + "%00"]
    return [path, *others[:more]]


def _identities(place: Place, route: Route) -> dict[str, str | None]:
    """Who asks: nobody, a stranger, one that came too late, one that lacks the scope."""
    lacking = [scope for scope in SCOPES if scope != route.scope]
    found: dict[str, str | None] = {
        "nobody": None,
        "stranger": "tly_" + "A" * 43,
        "late": token(place, [route.scope], expires_ns=time.time_ns() + 1),
        "lacking": token(place, lacking),
    }
    if route.of_world:
        found["elsewhere"] = token(place, list(SCOPES), worlds=["side"])
    return found


def token(place: Place, scopes: list[str], **more: Any) -> str:
    """A new token with these scopes."""
    body = {"principal": "test", "scopes": scopes, "worlds": ["*"], **more}
    status, made = place.ask("POST", "/v1/tokens", body)
    assert status == 201, made
    return str(made["token"])


def asked(place: Place, method: str, path: str, bearer: str | None) -> tuple[int, bytes]:
    """One request by somebody, or by nobody."""
    line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    try:
        line.request(method, path, headers={"Authorization": f"Bearer {bearer}"} if bearer else {})
        reply = line.getresponse()
        streams = reply.getheader("Content-Type", "").startswith("text/event-stream")
        return reply.status, b"" if streams else reply.read(4096)
    finally:
        line.close()


def faults(found: dict[str, Any]) -> list[str]:
    """A route that let somebody in, or anything that changed."""
    wrong = [f"let in: {found['let_in'][:3]}"] if found["let_in"] else []
    if found["changed"]:
        wrong.append("something changed")
    if found["asked"] < 4 * found["routes"]:
        wrong.append("not every route was asked")
    return wrong


CASE = Case(
    number="at-19",
    name="auth-matrix",
    rows="ND-20 RL-19",
    run=run,
    faults=faults,
    planted="scopes_not_asked",
    small={"spellings": 0},
    full={"spellings": 5},
)
