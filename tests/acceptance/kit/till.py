"""A till: an executor that stands elsewhere, leases jobs over HTTP and seals what it says.

It is as good or as bad as a test wants: it may answer twice, late, never, or in a foreign hand.
"""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Final

from tallystick.kernel.inputs import Receipt
from tallystick.kernel.settle import statement_of
from tallystick.values import canon
from tallystick.values.seal import KeyPair
from tests.acceptance.kit.place import Place

PAIR: Final = KeyPair(bytes(range(32)))
EFFECT: Final = "kit/Pay@1"
ROUTES: Final = """
[executors]
routes = { till = "pool:tills" }
"""
Job = dict[str, Any]


@dataclass(slots=True)
class Till:
    """A caller of /v1/work with one connection and one key."""

    place: Place
    pair: KeyPair = PAIR
    _line: http.client.HTTPConnection | None = field(default=None, init=False)

    def trust(self, pair: KeyPair | None = None, executor: str = "till") -> None:
        """Let the world trust a key of this till."""
        key = (pair or self.pair).public.hex()
        body = {"public_key": key, "executors": [executor], "effects": [EFFECT]}
        status, said = self.ask("/v1/worlds/main/keys", body)
        assert status == 202, said

    def ask(self, path: str, body: Any) -> tuple[int, Any]:
        """One POST over the connection that stays open."""
        if self._line is None:
            self._line = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=60)
        token = f"Bearer {self.place.token()}"
        headers = {"Authorization": token, "Content-Type": "application/json"}
        self._line.request("POST", path, json.dumps(body).encode(), headers)
        reply = self._line.getresponse()
        raw = reply.read()
        return reply.status, json.loads(raw) if raw else None

    def bill(self, *names: str, cents: int = 5, kind: str = "Bill") -> None:
        """Send bills, a hundred at a time."""
        for first in range(0, len(names), 100):
            values = [{"id": name, "cents": cents} for name in names[first : first + 100]]
            events = [{"schema": f"kit/{kind}@1", "value": value} for value in values]
            status, said = self.ask("/v1/worlds/main/events", {"events": events})
            assert status in (202, 207), said

    def lease(self, most: int = 50, *, lease_ms: int = 60_000, wait_ms: int = 200) -> list[Job]:
        """Jobs, each leased for a while; none when there are none."""
        wish = {"worker": "till", "pools": ["tills"], "max": most}
        status, found = self.ask(
            "/v1/work/lease", {**wish, "lease_ms": lease_ms, "wait_ms": wait_ms}
        )
        assert status in (200, 204), found
        return list(found["items"]) if found else []

    def settle(self, job: Job, body: dict[str, Any]) -> int:
        """Bring a receipt by its lease; the status of the answer."""
        return self.ask(f"/v1/work/{job['lease']}/receipt", by_lease(body))[0]

    def bring(self, body: dict[str, Any]) -> tuple[int, Any]:
        """Bring a receipt to the world's own door."""
        return self.ask("/v1/worlds/main/receipts", body)

    def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()


def receipt(job: Job, value: Any = None, *, pair: KeyPair = PAIR, **more: Any) -> dict[str, Any]:
    """A receipt for a job, sealed; `more` is sealed too."""
    fields: dict[str, Any] = {
        "intent": job["intent"],
        "attempt": job["attempt"],
        "effect": EFFECT,
        "status": "ok",
        "payload": canon.encode({"ref": "r"} if value is None else value),
        "executor": "till",
        "started_ns": 1,
        "ended_ns": 2,
        "usage": None,
        **more,
    }
    world = fields.pop("world", job["world"])
    made = Receipt(world=world, seal={}, **{**fields, "intent": canon.raw_of(fields["intent"])})
    seal = pair.sign(statement_of(made))
    seal["sig"] = b64encode(seal["sig"]).decode()
    return {**fields, "payload": b64encode(fields["payload"]).decode(), "seal": seal}


def by_lease(body: dict[str, Any]) -> dict[str, Any]:
    """A receipt as it is brought under a lease, which already names the rest."""
    return {name: body[name] for name in body if name not in ("intent", "attempt", "effect")}
