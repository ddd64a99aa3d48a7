"""Secrets of a remote worker: its own, and never in what it sends (ND-19)."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from tests.cli.crew import TOML, Crew

SECRET_APP = """
from tallystick import Bundle, Ctx, Http, Record

app = Bundle(
    "shop",
    definitions=[
        {
            "$kind": "defsecret",
            "name": "shop/api@1",
            "binding_id": "env:SHOP_API",
            "allowed_caps": ["http.out"],
        }
    ],
)


class Placed(Record):
    order_id: str


class Order(Record):
    said: bytes = b""


@app.workflow(key="order_id", effects=[Http])
def orders(state: Order | None, event: Placed | Http.Settled, ctx: Ctx) -> Order | None:
    match event:
        case Placed():
            key = Http.Secret(alias="shop/api", version=1)
            ctx.effect(Http(method="GET", url="https://example.com/", headers={"Key": key}))
            return Order()
        case Http.Ok(value=answer):
            ctx.complete("done")
            return Order(said=answer.body or b"")
        case Http.Failed(code=code):
            ctx.fail(code)
            return Order(said=code.encode())
    return state
"""
ECHO = '''
from tallystick.executors.base import Ok, Repeat


class Echo:
    """Answers with the secret it was given, as a careless remote would."""

    name = "http"
    effects = frozenset({"sys/http.request@1"})
    repeat: Repeat = "keyed"
    slots = 4

    def __init__(self, settings, ports):
        pass

    async def perform(self, job, report):
        (value,) = job.secrets.values()
        await report("heard", {"text": value})
        body = b"your key is " + value.encode()
        answer = {"status": 200, "url": job.params["url"], "headers": {}, "body": body}
        return Ok({**answer, "body_ref": None, "size": len(body), "timings": {}})

    async def cancel(self, job):
        pass

    async def close(self):
        pass
'''


@pytest.mark.clause("K-04")
def test_a_workers_secrets_are_its_own_and_do_not_come_back(tmp_path: Path):
    """ND-19: the node has no value and sends none; what the remote echoes is scrubbed first."""
    (tmp_path / "app.py").write_text(SECRET_APP)
    (tmp_path / "crew.py").write_text(ECHO)
    (tmp_path / "tally.toml").write_text(TOML.replace("payments", '"sys/http.request@1"'))
    crew = Crew(tmp_path, executors="http.request")
    canary = "canary-5e1c7a90"
    try:
        crew.worker(spec="crew:Echo", SHOP_API=canary)
        crew.place("o-1")
        said = crew.ended("o-1")["state"]["said"]
        assert b64decode(said).startswith(b"your key is ")
        assert canary.encode() not in b64decode(said)
        kept = [path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()]
        assert all(canary.encode() not in data for data in kept)
    finally:
        crew.close()
