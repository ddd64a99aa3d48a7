"""OTLP over HTTP as JSON: how spans and figures are spelled, and how they are sent."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tallystick.errors import Rejected
from tallystick.node.metrics import Histogram, Labels, Metrics

TIMEOUT_S: Final = 5.0
_CUMULATIVE: Final = 2
_INTERNAL: Final = 1


@dataclass(slots=True)
class Span:
    """One step of the walk; `trace` is 16 bytes, `ident` and `parent` are 8."""

    name: str
    trace: bytes
    ident: bytes
    parent: bytes | None
    began_ns: int
    ended_ns: int
    about: dict[str, Any]
    failed: bool = False
    links: list[tuple[bytes, bytes]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The span as OTLP has it."""
        made: dict[str, Any] = {
            "traceId": self.trace.hex(),
            "spanId": self.ident.hex(),
            "name": self.name,
            "kind": _INTERNAL,
            "startTimeUnixNano": str(self.began_ns),
            "endTimeUnixNano": str(max(self.began_ns, self.ended_ns)),
            "attributes": _attributes(self.about),
            "status": {"code": 2 if self.failed else 1},
        }
        if self.parent is not None:
            made["parentSpanId"] = self.parent.hex()
        if self.links:
            made["links"] = [{"traceId": t.hex(), "spanId": s.hex()} for t, s in self.links]
        return made


class Wire:
    """The far end: a collector behind an address."""

    def __init__(self, endpoint: str, resource: Mapping[str, str]) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Rejected(
                f"{endpoint!r} is no address of a collector",
                code="config.type",
                where={"key": "otel.endpoint"},
                hint="write http://127.0.0.1:4318",
            )
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._resource = {"attributes": _attributes(resource)}
        self._scope = {"name": "tallystick"}

    def spans(self, spans: Iterable[Span]) -> bool:
        """Send spans; False when the far end did not take them."""
        scoped = {"scope": self._scope, "spans": [span.document() for span in spans]}
        body = {"resourceSpans": [{"resource": self._resource, "scopeSpans": [scoped]}]}
        return self._post("/v1/traces", body)

    def metrics(self, metrics: Metrics, began_ns: int, now_ns: int) -> bool:
        """Send all figures as they stand; False when the far end did not take them."""
        times = {"startTimeUnixNano": str(began_ns), "timeUnixNano": str(now_ns)}
        scoped = {"scope": self._scope, "metrics": list(_figures(metrics, times))}
        body = {"resourceMetrics": [{"resource": self._resource, "scopeMetrics": [scoped]}]}
        return self._post("/v1/metrics", body)

    def _post(self, path: str, body: Any) -> bool:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        line = kind(self._host, self._port, timeout=TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/json"}
            line.request("POST", self._path + path, json.dumps(body).encode(), headers)
            reply = line.getresponse()
            reply.read()
        except (OSError, http.client.HTTPException):
            return False  # a collector that is away is no matter of the node's
        finally:
            line.close()
        return 200 <= reply.status < 300


def _attributes(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in given.items()]


def _value(value: Any) -> dict[str, Any]:
    return {"intValue": str(value)} if type(value) is int else {"stringValue": str(value)}


def _figures(metrics: Metrics, times: dict[str, str]) -> Iterable[dict[str, Any]]:
    for name, counts in metrics.counters():
        points = [{**_point(key, times), "asInt": str(n)} for key, n in counts.items()]
        whole = {"dataPoints": points, "isMonotonic": True}
        yield {"name": name, "sum": {**whole, "aggregationTemporality": _CUMULATIVE}}
    for name, values in metrics.gauges():
        points = [{**_point(key, times), "asDouble": value} for key, value in values.items()]
        yield {"name": name, "gauge": {"dataPoints": points}}
    for name, rows in metrics.histograms():
        points = [_histogram(key, times, found) for key, found in rows.items()]
        whole = {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}
        yield {"name": name, "histogram": whole}


def _point(key: Labels, times: dict[str, str]) -> dict[str, Any]:
    return {**times, "attributes": _attributes(dict(key))}


def _histogram(key: Labels, times: dict[str, str], found: Histogram) -> dict[str, Any]:
    return {
        **_point(key, times),
        "count": str(found.count),
        "sum": found.total,
        "explicitBounds": list(found.bounds),
        "bucketCounts": [str(n) for n in found.buckets],
    }
