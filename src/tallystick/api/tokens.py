"""Tokens and trusted keys over HTTP."""

from __future__ import annotations

import time
from typing import Any

from tallystick.api import who
from tallystick.api.cells import accepted
from tallystick.api.models import NewKey, NewToken, RevokeBody, SessionCode
from tallystick.api.reads import live
from tallystick.api.request import Request, Response
from tallystick.api.who import Identity
from tallystick.errors import Forbidden, UnknownName
from tallystick.journal.base import TokenRow
from tallystick.kernel.inputs import RevokeKey, TrustKey
from tallystick.kernel.world import World


async def list_tokens(request: Request) -> Response:
    """GET /v1/tokens: who may call, never with what."""
    rows = await request.node.read(lambda reader: reader.tokens())
    return Response(value={"items": [_shown(row) for row in rows], "next": None, "as_of": None})


def _shown(row: TokenRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "principal": row.principal,
        "scopes": sorted(row.scopes),
        "worlds": list(row.worlds),
        "expires_ns": row.expires_ns,
        "revoked_ns": row.revoked_ns,
    }


async def make_token(request: Request) -> Response:
    """POST /v1/tokens: a token, shown once; it can do no more than the one that makes it."""
    body = request.read(NewToken)
    scopes = who.known_scopes(body.scopes)
    wider = sorted(scopes - request.who.scopes)
    if wider:
        raise Forbidden(
            f"a token cannot give the scope {wider[0]}, which its maker lacks",
            code="auth.missing_scope",
            where={"scope": wider[0]},
        )
    ident = who.new_id()
    secret = who.new_secret(ident)
    hashed = who.hash_of(secret)
    ends = [end for end in (body.expires_ns, request.who.expires_ns) if end is not None]
    expires_ns = min(ends, default=None)  # no later than its maker
    row = TokenRow(ident, hashed, body.principal, tuple(sorted(scopes)), body.worlds, expires_ns)
    await request.node.write(lambda journal: journal.put_token(row))
    identity = Identity(ident, row.principal, scopes, row.worlds, row.expires_ns)
    request.api.tokens.put(hashed, identity)
    made = {**_shown(row), "token": secret}
    if body.ui:
        code, until_ns = request.api.sessions.code(identity)
        made["login"] = {"path": f"/login#{code}", "code": code, "expires_ns": until_ns}
    return Response(201, made)


async def revoke_token(request: Request) -> Response:
    """DELETE /v1/tokens/{id}: the token is not known from now on."""
    ident = request.named["id"]
    now_ns = time.time_ns()
    known = await request.node.write(lambda journal: journal.revoke_token(ident, now_ns))
    if not known:
        raise UnknownName("no token has this id", code="auth.unknown_token")
    request.api.tokens.forget(ident)
    request.api.sessions.forget(ident)
    return Response(200, {"id": ident, "revoked_ns": now_ns})


# ---- sessions -------------------------------------------------------------------------------


async def begin_session(request: Request) -> Response:
    """POST /v1/session: a session for a code; one half is a cookie, the other is in the answer."""
    body = request.read(SessionCode)
    api = request.api
    made = api.sessions.begin(body.code)
    who = made.identity
    parts = [b"%s=%s" % (api.sessions.cookie, made.cookie.encode()), b"HttpOnly"]
    parts += [b"SameSite=Strict", b"Path=/", *([b"Secure"] if api.door.is_tls else [])]
    shown = {
        "half": made.half,
        "principal": who.principal,
        "worlds": list(who.worlds),
        "scopes": sorted(who.scopes),
        "expires_ns": made.expires_ns,
    }
    return Response(201, shown, ((b"set-cookie", b"; ".join(parts)),))


async def end_session(request: Request) -> Response:
    """DELETE /v1/session: neither half is good for anything from now on."""
    request.api.sessions.end(request.who.session)
    gone = b"%s=; Max-Age=0; Path=/" % request.api.sessions.cookie
    return Response(200, {"ended": True}, ((b"set-cookie", gone),))


# ---- keys -----------------------------------------------------------------------------------


async def list_keys(request: Request) -> Response:
    """GET W/keys: the keys whose seals the world counts."""

    def show(world: World) -> dict[str, Any]:
        items = [
            {
                "key": key,
                "public_key": trust.public_key.hex(),
                "executors": list(trust.executors),
                "effects": list(trust.effects),
                "revoked": trust.revoked,
            }
            for key, trust in sorted(world.keys.items())
        ]
        return {"items": items, "next": None, "as_of": world.seq}

    return Response(value=await live(request, show))


async def trust_key(request: Request) -> Response:
    """POST W/keys: count the seals of a key from now on."""
    body = request.read(NewKey)
    given = TrustKey(
        request.sample(),
        bytes.fromhex(body.public_key),
        body.executors,
        body.effects,
        request.who.principal,
    )
    return await accepted(request, given)


async def revoke_key(request: Request) -> Response:
    """DELETE W/keys/{key}: stop counting; what settled before stays settled."""
    body = request.read(RevokeBody)
    given = RevokeKey(request.sample(), request.named["key"], request.who.principal, body.reason)
    return await accepted(request, given)
