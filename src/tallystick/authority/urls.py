"""URLs, read by hand and narrowly: what two parsers could read differently is refused.

The enforcer and the executor must agree about the host to the letter, so there is no repair: no
userinfo, no fragment, no backslash, no escapes in the host, no second spelling of an address, no
path that a server might fold into another one.
A name is ASCII; an international one is written in its `xn--` form, because two tables of Unicode
may map one spelling to two hosts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.authority.addresses import Address, read_ipv4, read_ipv6

URL_MAX = 8192
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_HEX = frozenset("0123456789abcdefABCDEF")
_NEVER = frozenset('\\"<>^`{|}#')
_PORTS = {"http": 80, "https": 443}
_INTERNAL = (".internal", ".local", ".lan", ".home", ".corp", ".intranet", ".home.arpa")


@dataclass(frozen=True, slots=True)
class Url:
    """A URL taken apart; `host` is lower case, `address` is set when it is an address."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None


@dataclass(frozen=True, slots=True)
class BadUrl:
    """Why a text is not a URL we would send."""

    reason: str


def read_url(text: Any) -> Url | BadUrl:
    """The parts of an absolute http or https URL, or the reason it is refused."""
    if type(text) is not str or not text or len(text) > URL_MAX:
        return BadUrl("the url is not a text of 1 to 8192 characters")
    if any(not "!" <= c <= "~" or c in _NEVER for c in text):
        return BadUrl("the url holds a character that must be escaped or may not be there")
    scheme, colon, rest = text.partition("://")
    scheme = scheme.lower()
    if not colon or scheme not in _PORTS:
        return BadUrl("the url is not absolute http or https")
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    authority, target = rest[:end], rest[end:]
    path = target.partition("?")[0] or "/"
    bad = _bad_path(path)
    if bad:
        return BadUrl(bad)
    return _with_host(scheme, authority, path)


def _with_host(scheme: str, authority: str, path: str) -> Url | BadUrl:
    if "@" in authority:
        return BadUrl("the url carries a user")
    if "%" in authority:
        return BadUrl("the host holds an escape or a zone")
    address: Address | None
    if authority.startswith("["):
        inner, closed, after = authority[1:].partition("]")
        address = read_ipv6(inner) if closed else None
        if address is None:
            return BadUrl("the host is not an IPv6 address")
        host = "[" + inner.lower() + "]"
        colon, port_text = after[:1], after[1:]
        if colon not in ("", ":"):
            return BadUrl("the host has something behind its bracket")
    else:
        host, colon, port_text = authority.partition(":")
        host = host.lower()
        address = read_ipv4(host)
        if address is None and not is_name(host):
            return BadUrl("the host is neither a plain ASCII name nor a plain address")
    port = _port(port_text) if colon else _PORTS[scheme]
    if port is None:
        return BadUrl("the port is not a number from 1 to 65535")
    return Url(scheme, host, port, path, address)


def _port(text: str) -> int | None:
    if not text.isdigit() or not text.isascii() or len(text) > 5 or text[0] == "0":
        return None
    return int(text) if int(text) <= 65535 else None


def is_name(host: str) -> bool:
    """True for a lower-case ASCII host name that nobody could read as an address."""
    if not 1 <= len(host) <= 253:
        return False
    labels = host.split(".")
    for label in labels:
        if not 1 <= len(label) <= 63 or label[0] == "-" or label[-1] == "-":
            return False
        if any(c not in _LABEL for c in label):
            return False
    # Names that end in a number are addresses in some spelling: decimal, octal, hex, short.
    last = labels[-1]
    return not (last.isdigit() or (last.startswith("0x") and all(c in _HEX for c in last[2:])))


def is_local(host: str) -> bool:
    """True for names that mean this machine."""
    return host == "localhost" or host.endswith((".localhost", ".localdomain"))


def is_internal(host: str) -> bool:
    """True for names that only an inner network resolves."""
    return "." not in host or host.endswith(_INTERNAL)


def covers_host(pattern: Any, host: Any) -> bool:
    """True when a host, or every host of a `*.` pattern, falls under the pattern."""
    if type(pattern) is not str or type(host) is not str:
        return False
    wide, narrow = pattern.lower(), host.lower()
    if wide == narrow:
        return True
    if not wide.startswith("*.") or len(wide) < 3:
        return False
    return narrow.removeprefix("*").endswith(wide[1:]) and len(narrow) > len(wide) - 1


def _bad_path(path: str) -> str | None:
    decoded = _unescape(path)
    if decoded is None:
        return "the path holds a broken escape"
    again = _unescape(decoded)
    if again is not None and again != decoded and any(c in again for c in "./\\"):
        return "the path is escaped twice"
    if decoded.count("/") != path.count("/") or "\\" in decoded:
        return "the path hides a slash"
    if any(c < " " or c == "\x7f" for c in decoded):
        return "the path holds a control character"
    segments = decoded.split("/")[1:]
    if any(segment.partition(";")[0] in (".", "..") for segment in segments):
        return "the path holds a dot segment"
    if "" in segments[:-1]:
        return "the path holds an empty segment"
    return None


def _unescape(text: str) -> str | None:
    """The text with escapes resolved as Latin-1, or None when one is broken."""
    head, *parts = text.split("%")
    out = [head]
    for part in parts:
        if len(part) < 2 or part[0] not in _HEX or part[1] not in _HEX:
            return None
        out.append(chr(int(part[:2], 16)) + part[2:])
    return "".join(out)
