"""AT-20 rebinding-csrf (RL-19): what a web page can send is refused, token or not."""

from __future__ import annotations

import http.client
import json
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place

EVENT = {"id": "evil", "cents": 2, "sink": "", "due_ns": None, "timeout_ns": None}
BODY = json.dumps({"schema": "kit/Order@1", "value": EVENT}).encode()
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
# Each as a browser would send it from a page of somebody else.
ATTACKS: dict[str, dict[str, str]] = {
    "a rebound host": {**JSON, "Host": "evil.example"},
    "another origin": {**JSON, "Origin": "https://evil.example"},
    "no origin to tell": {**JSON, "Origin": "null"},
    "a form": {**FORM, "Origin": "https://evil.example"},
    "a form without origin": FORM,
    "no-cors text": {"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site"},
    "cross-site json": {**JSON, "Sec-Fetch-Site": "cross-site"},
}


def run(bench: Bench) -> dict[str, Any]:
    """Send an event the way a page may, with and without the token, and look for a change."""
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        before = place.root()["root"]
        said = {}
        for name, headers in ATTACKS.items():
            for token in ("", place.token()):
                status, allowed = _sent(place, headers, token)
                said[f"{name}{', with the token' if token else ''}"] = [status, allowed]
        changed = place.root()["root"] != before
        good, _ = _sent(place, JSON, place.token())
    return {"said": said, "changed": changed, "good": good}


def _sent(place: Place, headers: dict[str, str], token: str) -> tuple[int, str | None]:
    line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    sent = {**headers, "Authorization": f"Bearer {token}"} if token else headers
    try:
        line.request("POST", "/v1/worlds/main/events", BODY, sent)
        reply = line.getresponse()
        reply.read()
        return reply.status, reply.getheader("Access-Control-Allow-Origin")
    finally:
        line.close()


def faults(found: dict[str, Any]) -> list[str]:
    """An attack that was not refused, or a page that would be let read the answer."""
    bad = {name: said for name, said in found["said"].items() if said[0] < 400 or said[1]}
    wrong = [f"not refused: {bad}"] if bad else []
    if found["changed"]:
        wrong.append("an attack changed the world")
    if found["good"] != 202:
        wrong.append(f"an honest caller was answered with {found['good']}")
    return wrong


CASE = Case(
    number="at-20",
    name="rebinding-csrf",
    rows="RL-19",
    run=run,
    faults=faults,
    planted="no_door",
    suite="both",
    small={},
    full={},
)
