"""OpenAPI 3.1 from the route table and the body shapes; nothing is written by hand twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from tallystick.api.request import Request, Response
from tallystick.api.routes import COMMON, OPEN, Route

_SCHEMAS: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "path": {"type": "string"},
        "hint": {"type": "string"},
        "retry_after_ms": {"type": "integer"},
        "where": {"type": "object"},
    },
}


async def openapi(request: Request) -> Response:
    """GET /v1/openapi.json: the routes of this node."""
    return Response(value=document(request.api.table.routes))


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole description."""
    routes = tuple(routes)
    bodies = [route.body for route in routes if route.body is not None]
    shapes, named = msgspec.json.schema_components(bodies, ref_template=_SCHEMAS)
    shape_of = dict(zip(bodies, shapes, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, shape_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tallystick", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {**named, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, shape_of: dict[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": route.says,
        "x-scope": route.scope,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_key(route)],
        "responses": _responses(route),
        "security": [] if route.scope == OPEN else [{"token": []}],
    }
    if route.body is not None:
        shape = {"schema": shape_of[route.body]}
        made["requestBody"] = {"content": {"application/json": shape, "application/cbor": shape}}
    elif route.content == "bytes":
        made["requestBody"] = {"content": {"application/octet-stream": {}}}
    return made


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    named = [part[1:-1] for part in route.parts if part.startswith("{")]
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in named
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": "string"}} for name in route.query]


def _key(route: Route) -> list[dict[str, Any]]:
    if route.once not in ("event", "kept"):
        return []
    shape = {"type": "string", "minLength": 1, "maxLength": 128}
    return [{"name": "Idempotency-Key", "in": "header", "schema": shape}]


def _responses(route: Route) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    found: dict[str, Any] = {}
    for code in sorted({*route.codes, *COMMON}):
        found[str(code)] = {"description": str(code)}
        if code >= 400:
            found[str(code)]["content"] = problem
    return found
