"""The loopback HTTP service that the collected playbooks call: 35 items, in pages."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOTAL = 35


class Paged:
    """What was asked, and which flaky pages have failed already."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failed: set[str] = set()
        self.url = ""

    # tidy: one branch for each path of the service.
    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """The answer to one request."""
        page = int(query.get("page", 1))
        size = int(query.get("pageSize", 10))
        first, last = (page - 1) * size + 1, min(page * size, TOTAL)
        paging = {"hasMore": last < TOTAL, "page": page, "pageSize": size, "total": TOTAL}
        if path == "/api/v1/assessments":
            rows = [
                {"id": i, "name": f"Assessment {i}", "score": 50 + i % 50}
                for i in range(first, last + 1)
            ]
            return 200, {"data": rows, "paging": paging}
        if path == "/api/v1/events":
            raw = query.get("cursor", "")
            at = int(base64.b64decode(raw)) if raw else 1
            size = int(query.get("limit", 10))
            first, last = (at - 1) * size + 1, min(at * size, TOTAL)
            more = base64.b64encode(str(at + 1).encode()).decode() if last < TOTAL else None
            rows = [{"id": i, "name": f"e{i}"} for i in range(first, last + 1)]
            return 200, {"events": rows, "next_cursor": more, "limit": size}
        if path == "/api/v1/flaky":
            if str(page) in query.get("fail_on", "").split(",") and str(page) not in self.failed:
                self.failed.add(str(page))
                return 500, {"error": "flaky"}
            rows = [{"id": i, "value": i} for i in range(first, last + 1)]
            return 200, {"data": rows, "paging": paging}
        if path.startswith("/api/v1/errors"):
            return 503, {"error": "down"}
        if path == "/data":
            return 200, {"items": [1, 2]}
        return 404, {"error": path}


@contextmanager
def paged() -> Iterator[Paged]:
    """A running service on a free port."""
    service = Paged()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            service.asked.append(self.path)
            status, value = service.answer(parts.path, query)
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
