"""Ed25519 in plain Python, as RFC 8032 writes it, for interpreters without a signing library.

Slow and not for secrets: it lets the determinism program run on any CPython, so that frames with
seals in them can be compared there.
`offer` puts it where `nacl` would be, and only where there is none.
"""

from __future__ import annotations

import importlib.util
import sys
from hashlib import sha512
from types import ModuleType, SimpleNamespace

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)

Point = tuple[int, int, int, int]


def add(a: Point, b: Point) -> Point:
    left, right = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    c, d = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = right - left, d - c, d + c, right + left
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(n: int, point: Point) -> Point:
    found: Point = (0, 1, 1, 0)
    while n:
        if n & 1:
            found = add(found, point)
        point = add(point, point)
        n >>= 1
    return found


def same(a: Point, b: Point) -> bool:
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def recover(y: int, sign: int) -> int:
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * ROOT % P
    if (x * x - x2) % P:
        raise ValueError("not a point")
    return P - x if x & 1 != sign else x


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover(BASE_Y, 0)
BASE: Point = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def pack(point: Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def unpack(data: bytes) -> Point:
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    x = recover(y, sign)
    return (x, y, 1, x * y % P)


def number(*parts: bytes) -> int:
    return int.from_bytes(sha512(b"".join(parts)).digest(), "little") % Q


class BadSignatureError(Exception):
    """A signature that is not over these bytes by this key."""


class SigningKey:
    """Signs like the library's."""

    def __init__(self, seed: bytes) -> None:
        digest = sha512(seed).digest()
        self.secret = int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254
        self.prefix = digest[32:]
        self.public = pack(times(self.secret, BASE))
        self.verify_key = VerifyKey(self.public)

    def sign(self, message: bytes) -> SimpleNamespace:
        r = number(self.prefix, message)
        point = pack(times(r, BASE))
        s = (r + number(point, self.public, message) * self.secret) % Q
        return SimpleNamespace(signature=point + s.to_bytes(32, "little"))


class VerifyKey:
    """Verifies like the library's."""

    def __init__(self, public: bytes) -> None:
        self.public = public

    def __bytes__(self) -> bytes:
        return self.public

    def encode(self) -> bytes:
        return self.public

    def verify(self, message: bytes, signature: bytes) -> bytes:
        point, s = signature[:32], int.from_bytes(signature[32:], "little")
        h = number(point, self.public, message)
        if not same(times(s, BASE), add(unpack(point), times(h, unpack(self.public)))):
            raise BadSignatureError
        return message


def offer() -> None:
    """Stand in for `nacl` where it cannot be loaded."""
    if importlib.util.find_spec("_cffi_backend") is not None:
        return
    for name, members in (
        ("nacl", {}),
        ("nacl.exceptions", {"BadSignatureError": BadSignatureError}),
        ("nacl.signing", {"SigningKey": SigningKey, "VerifyKey": VerifyKey}),
    ):
        made = ModuleType(name)
        vars(made).update(members)
        sys.modules[name] = made
