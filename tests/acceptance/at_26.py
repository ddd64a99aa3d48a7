"""AT-26 secret-canary (ND-19, RL-19, I41): a secret is used, and is nowhere to be found after."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.bundle import zipped
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.wishes import granted, wish
from tests.executors.test_scrub import SPELLINGS

CANARY = "sk-canary-0123456789-abcdef"
SETTINGS = """
[executors]
enabled = ["http", "shell", "blob", "file"]
"""


class Parrot(BaseHTTPRequestHandler):
    """A server that repeats the key in every spelling."""

    heard: list[str]

    def do_GET(self) -> None:
        """Answer with what came in the header."""
        key = self.headers["x-key"]
        self.heard.append(key)
        said = "\n".join(make(key) for make in SPELLINGS.values())
        body = (said + "." * (100_000 if self.path == "/large" else 0)).encode()
        self.send_response(200)
        self.send_header("X-Echo", key)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Send the key to a server and a program that repeat it; then look everywhere."""
    heard: list[str] = []
    handler = type("Parroting", (Parrot,), {"heard": heard})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    url = f"http://127.0.0.1:{server.server_port}"
    folder = bench.fresh("node")
    shown: list[str] = []
    try:
        with Place(folder, SETTINGS, planted=bench.planted, world=zipped("tools")) as place:
            place.environment = {"TOOLS_KEY": CANARY}
            place.start()
            for path in ("/small", "/large"):
                wish(place, "Fetch", path, url=url + path, key=True)
                shown.append(json.dumps(granted(place, "Fetch", path)))
            program = ["/bin/sh", "-c", "echo $TOOLS_KEY; printf %s $TOOLS_KEY | od -An -tx1"]
            wish(place, "Run", "sh", argv=program, key=True, seconds=20)
            run_said = granted(place, "Run", "sh")
            shown += [json.dumps(run_said), json.dumps(list(place.rows("receipt")))]
            shown.append(place.tally("--json", "trace", "--workflow", "tools/fetcher@1").stdout)
            shown.append(place.tally("--json", "explain", "--workflow", "tools/fetcher@1").stdout)
            status, metrics = _text(place, "/metrics")
            shown.append(metrics)
            backup = place.tally("backup", str(bench.folder / "backup"))
            place.stop()
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    return {
        "heard": [key == CANARY for key in heard],
        "program": run_said["status"],
        "metrics": status,
        "backup": backup.returncode,
        "files": {**_found(folder), **_found(bench.folder / "backup")},
        "answers": sorted({name for text in shown for name in _spelled(text.encode())}),
    }


def _text(place: Place, path: str) -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    try:
        line.request("GET", path, headers={"Authorization": f"Bearer {place.token()}"})
        reply = line.getresponse()
        return reply.status, reply.read().decode()
    finally:
        line.close()


def _spelled(body: bytes) -> list[str]:
    """The spellings of the canary that some bytes hold."""
    spelled = {name: make(CANARY).strip('"').encode()[3:-3] for name, make in SPELLINGS.items()}
    return [name for name, text in spelled.items() if text in body]


def _found(folder: Path) -> dict[str, list[str]]:
    """Files below a folder, or one file, that hold it."""
    paths = [folder] if folder.is_file() else [p for p in folder.rglob("*") if p.is_file()]
    spelled = {str(path.name): _spelled(path.read_bytes()) for path in paths}
    return {name: found for name, found in spelled.items() if found}


def faults(found: dict[str, Any]) -> list[str]:
    """A hit anywhere, or a secret that was not used at all."""
    wrong = []
    if found["files"] or found["answers"]:
        wrong.append(f"found in {found['files']}, answers {found['answers']}")
    if found["heard"] != [True, True] or found["program"] != "exit 0":
        wrong.append(f"the key was not used: {found['heard']}, {found['program']}")
    if found["backup"] or found["metrics"] != 200:
        wrong.append(f"backup {found['backup']}, metrics {found['metrics']}")
    return wrong


def _possible() -> bool:
    return shutil.which("bwrap") is not None  # the program runs behind its walls


CASE = Case(
    number="at-26",
    name="secret-canary",
    rows="ND-19 RL-19 I41",
    run=run,
    faults=faults,
    possible=_possible,
    planted="nothing_scrubbed",
    small={},
    full={},
)
