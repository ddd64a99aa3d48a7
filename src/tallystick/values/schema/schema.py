"""Schemas: a named type, compiled; and the values it has admitted.

`admit` tries the hot closures first and asks the slow pass only when they refuse.
An `Admitted` carries its canonical bytes, so no layer encodes it again (01 section 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.values import canon
from tallystick.values.schema import lens as lenses
from tallystick.values.schema.freeform import Put
from tallystick.values.schema.judge import judged
from tallystick.values.schema.lens import ABSENT
from tallystick.values.schema.misfit import Misfit
from tallystick.values.schema.nodes import Scalar, Type, expression_of, is_flat
from tallystick.values.schema.put import compile_put
from tallystick.values.schema.render import Find, Render, compile_find, compile_render
from tallystick.values.schema.take import Take, compile_take
from tallystick.values.schema.types import Resolve, parse_type

LensName = Literal["native", "sugar", "tagged"]

_LENSES: Final = {"native": lenses.NATIVE, "sugar": lenses.SUGAR, "tagged": lenses.TAGGED}
_PREFIX: Final = canon.PREFIX
_SIZE_MAX: Final = canon.SIZE_MAX
_EXPECTED_MAX: Final = 512
_HANDED_MAX: Final = 64  # of any size: a few
_TEXT_MAX: Final = 64
# A letter has at most four bytes.
_TEXTS: Final = tuple([_PREFIX + canon.head(3, n) for n in range(4 * _TEXT_MAX)])


class Admitted:
    """A value that fits its schema: canonical value, canonical bytes, digest on demand."""

    __slots__ = ("_digest", "bytes", "schema", "value")

    def __init__(self, schema: Schema, value: Any, data: bytes) -> None:
        self.schema = schema
        self.value = value
        self.bytes = data
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """The 32 raw bytes of sha256 over the document."""
        known = self._digest
        if known is None:
            known = self._digest = canon.digest_of(self.bytes)
        return known

    @property
    def hash(self) -> str:
        """The digest as `sha256:<hex>`."""
        return canon.text_of(self.digest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Admitted):
            return NotImplemented
        return self.bytes == other.bytes and self.schema.shape_hash == other.schema.shape_hash

    def __hash__(self) -> int:
        return self.bytes.__hash__()

    def __repr__(self) -> str:
        # The content may be secret and is never shown.
        return f"Admitted({self.schema.name}, {len(self.bytes)} bytes)"


class Schema:
    """A compiled type: it accepts or refuses, and never repairs."""

    __slots__ = (
        "_expected",
        "_find",
        "_flat",
        "_handed",
        "_is_text",
        "_node",
        "_put",
        "_renders",
        "_shape_hash",
        "_sugar_put",
        "_take",
        "name",
        "type",
    )

    def __init__(self, name: str, node: Type) -> None:
        self.name = name
        self.type: dict[str, Any] = expression_of(node)
        self._node = node
        self._put: Put = compile_put(node, lenses.NATIVE)
        self._take: Take = compile_take(node)
        # Sugar, rendering and the search for hashes are compiled when first wanted.
        self._sugar_put: Put | None = None
        self._renders: dict[str, Render] = {}
        self._find: Find | None = None
        self._shape_hash: str | None = None
        self._flat = is_flat(node)
        self._is_text = node == Scalar("text")
        self._expected: dict[bytes, dict[str, Any]] = {}
        self._handed: dict[bytes, Any] = {}

    def __repr__(self) -> str:
        return f"Schema({self.name})"

    @property
    def node(self) -> Type:
        """The type as a tree, for those who look for positions in a value."""
        return self._node

    @property
    def shape_hash(self) -> str:
        """The hash of the type with references inlined: equal shapes have equal bytes."""
        known = self._shape_hash
        if known is None:
            known = canon.text_of(canon.tagged("shape@1", {"type": self.type}))
            self._shape_hash = known
        return known

    def admit(self, value: Any, lens: LensName = "native") -> Admitted:
        """The value with its canonical bytes; refuses with `value.mismatch` and every path.

        What this schema has admitted before is returned as it is.
        """
        put = self._put
        if lens != "native":
            if lens != "sugar":
                return self._refitted(value, lens)
            put = self._sugar_put or self._compile_sugar()
        out = [_PREFIX]
        try:
            canonical = put(value, out)
        except (Misfit, UnicodeEncodeError):
            canonical = ABSENT
        if canonical is ABSENT:
            # Outside the handler, so that no refusal carries the value along as its context.
            return self._refitted(value, lens)
        data = b"".join(out)
        if len(data) > _SIZE_MAX:
            raise self._too_large(data)
        return Admitted(self, canonical, data)

    def document(self, value: Any) -> bytes:
        """The bytes of a native value, for who needs nothing else; refuses like `admit`."""
        if self._is_text and type(value) is str and len(value) < _TEXT_MAX:
            try:
                raw = value.encode()
            except UnicodeEncodeError:
                raw = b""
            if raw:  # as nearly every key is
                return _TEXTS[len(raw)] + raw
        out = [_PREFIX]
        try:
            self._put(value, out)
        except (Misfit, UnicodeEncodeError):
            out.clear()
        data = b"".join(out)
        if 0 < len(data) <= _SIZE_MAX:
            return data
        return self.admit(value).bytes  # which says what is wrong, or knows the value already

    def read(self, data: bytes) -> Admitted:
        """The value of a canonical document of exactly this type; the bytes are kept as given.

        Refuses other bytes with NotCanonical, and other values with `value.mismatch`.
        """
        return Admitted(self, self.plain(data), data)

    def expect(self, admitted: Admitted) -> None:
        """Keep what was admitted for the next `plain` of its bytes, which then reads nothing.

        Only flat records, whose copy is as fresh as a value that was read; forgotten when full.
        """
        if self._flat:
            expected = self._expected
            if len(expected) >= _EXPECTED_MAX:
                expected.clear()
            expected[admitted.bytes] = admitted.value

    def hand_on(self, data: bytes, value: Any) -> None:
        """Keep what `plain` gave and nobody holds for the next `plain` of its bytes.

        It is given once, so it is as fresh as a value that was read; forgotten when full.
        """
        if len(self._handed) >= _HANDED_MAX:
            self._handed.clear()
        self._handed[data] = value

    def plain(self, data: bytes) -> Any:
        """The fresh value of a document that `read` takes; refuses like it."""
        if self._expected:
            known = self._expected.pop(data, None)
            if known is not None:
                return known.copy()
        if self._handed and (handed := self._handed.pop(data, ABSENT)) is not ABSENT:
            return handed
        try:
            if data.startswith(_PREFIX):
                value, end = self._take(data, 3)
                if end == len(data) <= _SIZE_MAX:
                    return value
        except (Misfit, IndexError, UnicodeDecodeError, NotCanonical):
            value = ABSENT
        _, errors = judged(self._node, canon.decode(data), lenses.STRICT)
        assert errors, "the hot reader refused what the judge accepts"
        raise self._mismatch(errors)

    def exact(self, data: bytes) -> Admitted | None:
        """The value of a document that `read` takes, or None where it would refuse."""
        if not data.startswith(_PREFIX):
            return None
        try:
            value, end = self._take(data, 3)
        except (Misfit, IndexError, UnicodeDecodeError, NotCanonical):
            return None
        return Admitted(self, value, data) if end == len(data) <= _SIZE_MAX else None

    def admit_older(self, data: bytes) -> Admitted:
        """A document of an older, compatible shape read under this one: absent options are null.

        Refuses like `read`; the digest is that of the newer bytes, the old ones stay as they are.
        """
        try:
            return self.read(data)
        except SchemaMismatch:
            older = canon.decode(data)
        return self._judged(older, lenses.OLDER)

    def render(self, value: Any, lens: LensName = "sugar") -> Any:
        """The JSON form of a canonical value under the sugar or the tagged lens."""
        known = self._renders.get(lens)
        if known is None:
            known = self._renders[lens] = compile_render(self._node, lens)
        return known(value)

    def hashes(self, value: Any) -> list[str]:
        """All typed hashes inside a canonical value, in canonical order."""
        find = self._find
        if find is None:
            find = self._find = compile_find(self._node)
        found: list[str] = []
        find(value, found)
        return found

    def _compile_sugar(self) -> Put:
        put = self._sugar_put = compile_put(self._node, lenses.SUGAR)
        return put

    def _refitted(self, value: Any, lens: LensName) -> Admitted:
        """What the hot closures do not take: an admitted value, one to be judged, or a misfit."""
        if type(value) is Admitted:
            if value.schema is self or value.schema.shape_hash == self.shape_hash:
                return value
            return self.admit(value.value)
        return self._judged(value, _LENSES[lens])

    def _judged(self, value: Any, lens: lenses.Lens) -> Admitted:
        canonical, errors = judged(self._node, value, lens)
        if errors:
            raise self._mismatch(errors)
        out = [_PREFIX]
        canonical = self._put(canonical, out)
        data = b"".join(out)
        if len(data) > _SIZE_MAX:
            raise self._too_large(data)
        return Admitted(self, canonical, data)

    def _too_large(self, data: bytes) -> SchemaMismatch:
        finding = {
            "code": "value.too_large",
            "path": "",
            "expected": f"at most {_SIZE_MAX} bytes",
            "got": f"{len(data)} bytes",
        }
        return self._mismatch([finding])

    def _mismatch(self, errors: list[dict[str, str]]) -> SchemaMismatch:
        first = errors[0]
        place = first["path"] or "the root"
        return SchemaMismatch(
            f"{self.name}: {first['code']} at {place}: expected {first['expected']}",
            schema=self.name,
            errors=errors,
        )


def compile_schema(name: str, type_: Mapping[str, Any], resolve: Resolve) -> Schema:
    """The schema of a type expression; `resolve` gives the expression behind a name or KeyError.

    Refuses with BadDefinition, a `schema.*` code and `where["path"]`.
    """
    return Schema(name, parse_type(type_, resolve))
