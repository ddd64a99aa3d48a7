"""Refusals that only HTTP knows: who you are, where you knocked, how you spelled it."""

from __future__ import annotations

from tallystick.errors import Rejected


class NoIdentity(Rejected):
    """No token, or none that this node knows; there is no fallback identity."""

    default_code = "auth.required"
    status = 401
    exit_code = 1
    default_hint = "send Authorization: Bearer with a token of this node"


class WrongHost(Rejected):
    """The Host header names somebody else: a page that rebinds its name ends here."""

    default_code = "auth.wrong_host"
    status = 421
    default_hint = "use 127.0.0.1, localhost, or a name of http.hosts"


class NoRoute(Rejected):
    """No route has this path."""

    default_code = "request.no_route"
    status = 404
    default_hint = "see /v1/openapi.json for the routes"


class WrongMethod(Rejected):
    """The path exists, the method does not."""

    default_code = "request.method"
    status = 405
    default_hint = "use a method that Allow names"


class WrongContent(Rejected):
    """A content type that the route does not read."""

    default_code = "request.content_type"
    status = 415
    default_hint = "send application/json or application/cbor"


class NoSuchRange(Rejected):
    """A range that the blob does not have."""

    default_code = "request.range"
    status = 416
    default_hint = "ask for one range inside the size"


class HeadTooLarge(Rejected):
    """The head of a request is over the size that is read."""

    default_code = "request.head_too_large"
    status = 431
    default_hint = "send fewer and shorter headers"


class TooSlow(Rejected):
    """The request did not come in time."""

    default_code = "request.too_slow"
    status = 408
    default_hint = "send the whole request at once"


class BadReceipt(Rejected):
    """A receipt that settles nothing: its seal, its key or its intent is not what it claims."""

    default_code = "receipt.bad_seal"
    status = 422
    exit_code = 1
    default_hint = "seal the receipt of this intent and attempt with a key that the world trusts"
