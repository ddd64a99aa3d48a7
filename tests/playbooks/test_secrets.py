"""Secrets of a keychain: they reach the tool that needs them, and nothing that is kept."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.playbooks.rig import ended, playing, request
from tests.playbooks.test_played import HEAD, surroundings

CANARY = "canary/7f3a+bird=0451"


# tidy: a whole service.
@contextmanager
def echo() -> Iterator[tuple[str, list[str]]]:
    """A service that answers with all it was told, in several spellings."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            told = f"{self.headers['Authorization']} {self.rfile.read(size).decode()}"
            heard.append(told)
            raw = told.encode()
            spelt = [raw.hex(), base64.b64encode(raw).decode(), quote(told, safe=""), told]
            size = 100_000 if "large" in self.path else 0
            body = json.dumps({"told": spelt, "rest": ["y" * size]}).encode()
            self.send_response(200 if "fine" in self.path else 500)
            self.send_header("X-Echo", self.headers["Authorization"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


TEXT = (
    HEAD
    + """keychain: [{name: api, kind: secret, provider: env, map: {token: TALLY_TEST_TOKEN}}]
workload: {url: "", note: nothing}
workflow:
  - step: call
    tool:
      - name: there
        kind: secrets
        provider: env
        spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
      - name: post
        kind: http
        method: POST
        url: "{{ workload.url }}/fine"
        headers: {Authorization: "Bearer {{ keychain.api.token }}"}
        body: {token: "{{ keychain.api.token }}"}
    set_ctx: {echo: "{{ call.data.told }}"}
    next: {arcs: [{step: fail, args: {was: "{{ call.headers }}"}}]}
  - step: fail
    tool:
      kind: http
      method: POST
      url: "{{ workload.url }}/bad?k={{ keychain.api.token }}"
      headers: {Authorization: "Bearer {{ keychain.api.token }}"}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {why: "{{ outcome }}"}}}}]}}
    next: {arcs: [{step: large}]}
  - step: large
    tool:
      kind: http
      method: POST
      url: "{{ workload.url }}/fine/large"
      headers: {Authorization: "Bearer {{ keychain.api.token }}"}
    set_ctx: {spelt: "{{ large.data.told | length }}", size: "{{ large._ref.bytes }}"}
    next: {arcs: [{step: refused}]}
  - step: refused
    tool:
      kind: http
      url: "http://127.0.0.1:1/{{ keychain.api.token }}"
      spec:
        policy: {rules: [{else: {then: {do: continue, set_ctx: {no: "{{ outcome.error }}"}}}}]}
"""
)


def spellings(value: str) -> list[bytes]:
    """A value as it stands, in hexadecimal, quoted, and in base64 at each of three offsets."""
    raw = value.encode()
    shifted = [base64.b64encode(b"x" * n + raw) for n in range(3)]
    inner = [text[4:-4] if n else text[:-4] for n, text in enumerate(shifted)]
    return [raw, raw.hex().encode(), quote(value, safe="").encode(), *inner]


def found_in(folder: Path, value: str) -> list[str]:
    """Every file below a folder that holds a value in any spelling."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    wanted = spellings(value)
    return [str(path) for path in files if any(each in path.read_bytes() for each in wanted)]


@pytest.mark.clause("K-04", "N-03")
def test_a_secret_is_used_and_never_kept(tmp_path: Path) -> None:
    """PB-22: a canary that the service echoes in four spellings, in a body, a header, an error and
    a URL: 0 hits in all that the node keeps.  Control: as a plain value of the workload it is
    found by the same search, and the service was told the real one.
    """

    async def main(url: str, note: str) -> Any:
        enabled = ["timer", "http", "playbook"]
        async with playing(tmp_path / note, enabled=enabled) as (node, world):
            await request(node, world, TEXT, workload={"url": url, "note": note})
            found = await ended(node, world)
            return found, await node.ops.verify(world, "replay")

    with surroundings(TALLY_TEST_TOKEN=CANARY), echo() as (url, heard):
        found, verdict = asyncio.run(main(url, "clean"))
        plain, _ = asyncio.run(main(url + "/" + quote(CANARY, safe="") + "/..", "leaky"))
    assert found.status == "success", (found.net["failures"], found.net["doom"])
    assert verdict["ok"], verdict
    assert heard[0].startswith(f"Bearer {CANARY} ")
    assert CANARY in heard[0].partition(" ")[2], "the body had it too"
    assert "«secret" in str(found.ctx["echo"])
    assert CANARY not in str(found)
    assert (found.ctx["spelt"], found.ctx["size"] > 100_000) == (4, True), "a large one is whole"
    assert found_in(tmp_path / "clean", CANARY) == []
    assert plain is not None
    assert found_in(tmp_path / "leaky", CANARY) != []
