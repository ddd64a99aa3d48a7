"""AT-25 ssrf (ND-17, RL-19): no spelling of an address, and no redirect, leads inside."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.bundle import zipped
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink
from tests.acceptance.kit.wishes import granted, wish
from tests.executors.test_http_scope import FORMS

SETTINGS = """
[executors.http]
timeout_s = 5
"""


class Front(BaseHTTPRequestHandler):
    """A server in the open that sends callers wherever the query says."""

    def do_GET(self) -> None:
        """Redirect, or say hello when no place is named."""
        places = parse_qs(urlsplit(self.path).query).get("to")
        self.send_response(302 if places else 200)
        if places:
            self.send_header("Location", places[0].encode().decode("latin-1"))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def run(bench: Bench) -> dict[str, Any]:
    """Fetch every form of an inner address, by name and by redirect, and one honest page."""
    sink = start_sink(bench.fresh("sink"))
    port = urlsplit(sink.url).port
    front = ThreadingHTTPServer(("127.0.0.2", 0), Front)
    serving = threading.Thread(target=front.serve_forever)
    serving.start()
    open_url = f"http://127.0.0.2:{front.server_port}/"
    world = zipped("tools", web="front")
    forms = [form.format(port=port) for form in FORMS if ".example:" not in form]
    try:
        with Place(bench.fresh("node"), SETTINGS, planted=bench.planted, world=world) as place:
            place.start()
            outcomes: dict[str, str] = {}
            for number, form in enumerate(forms[: bench["forms"]]):
                for way, url in (("asked", form), ("sent", f"{open_url}?to={_quoted(form)}")):
                    name = f"{way}-{number}"
                    wish(place, "Fetch", name, url=url, key=False)
                    outcomes[f"{way} {form}"] = granted(place, "Fetch", name)["status"]
            wish(place, "Fetch", "good", url=open_url, key=False)
            good = granted(place, "Fetch", "good")["status"]
            hits = len(sink.calls())
    finally:
        front.shutdown()
        serving.join()
        front.server_close()
        sink.close()
    fetched = [form for form, status in outcomes.items() if status == "ok"]
    return {"asked": len(outcomes), "fetched": fetched, "sink": hits, "good": good}


def _quoted(url: str) -> str:
    return "".join(f"%{byte:02x}" for byte in url.encode())


def faults(found: dict[str, Any]) -> list[str]:
    """A form that was fetched, a call at the sink, or an honest page that was not."""
    wrong = [f"fetched: {found['fetched'][:3]}"] if found["fetched"] else []
    if found["sink"]:
        wrong.append(f"the sink heard {found['sink']} calls")
    if found["good"] != "ok":
        wrong.append(f"an honest page: {found['good']}")
    return wrong


CASE = Case(
    number="at-25",
    name="ssrf",
    rows="ND-17 RL-19",
    run=run,
    faults=faults,
    planted="addresses_not_judged",
    small={"forms": 6},
    full={"forms": 40},
)
