"""Values on their way to a PostgreSQL server and back: always as text.

The server reads a bound text by the type it wants there, so that `2026-02-03` fits a date and
`{1,2}` an array.
A number, a truth or bytes have the type they would have if they stood in the statement.
What comes back is the server's own writing, read only where JSON has a form for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any, Final

# What most statements are made of: type, name, its array. The numbers of built-in types are fixed.
_COMMON: Final = (
    (16, "bool", 1000),
    (17, "bytea", 1001),
    (19, "name", 1003),
    (20, "int8", 1016),
    (21, "int2", 1005),
    (23, "int4", 1007),
    (25, "text", 1009),
    (26, "oid", 1028),
    (114, "json", 199),
    (700, "float4", 1021),
    (701, "float8", 1022),
    (1042, "bpchar", 1014),
    (1043, "varchar", 1015),
    (1082, "date", 1182),
    (1083, "time", 1183),
    (1114, "timestamp", 1115),
    (1184, "timestamptz", 1185),
    (1186, "interval", 1187),
    (1700, "numeric", 1231),
    (2205, "regclass", 2210),
    (2950, "uuid", 2951),
    (3802, "jsonb", 3807),
)
COMMON: Final = tuple((*each, ",") for each in _COMMON)
# The given types, and what they are arrays of; types of users have no name here, since theirs may
# be that of ours.
TYPES: Final = (
    "SELECT oid, CASE WHEN oid < 16384 THEN typname::text END, typarray, typdelim::text"
    " FROM pg_catalog.pg_type WHERE oid = ANY($1::oid[]) OR typarray = ANY($1::oid[])"
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_READ: Final[dict[str, Callable[[str], Any]]] = {
    "bool": lambda text: text == "t",
    **dict.fromkeys(("int2", "int4", "int8", "oid"), int),
    **dict.fromkeys(("float4", "float8"), float),
    "numeric": Decimal,
    "bytea": lambda text: bytes.fromhex(text.removeprefix(r"\x")),
    **dict.fromkeys(("json", "jsonb"), json.loads),
}


def typed(value: Any) -> str:
    """The cast behind the place of a value; none for text, which fits any type."""
    match value:
        case bool():
            return "::bool"
        case int():
            bits = value.bit_length()  # as many as the server gives the same digits
            return "::int4" if bits < 32 else "::int8" if bits < 64 else "::numeric"
        case float():
            return "::numeric"
        case bytes():
            return "::bytea"
    return ""


def types_of(statement: Any) -> tuple[list[Any], list[int]]:
    """The common types of a prepared statement, and those that `TYPES` must be asked for."""
    places = [column.type for column in statement.get_attributes()]
    found = {each.oid for each in (*places, *statement.get_parameters())}
    common = [row for row in COMMON if row[0] in found or row[2] in found]
    return common, sorted(found.difference(*((row[0], row[2]) for row in common)))


def speak_text(connection: Any, types: Iterable[Any]) -> None:
    """Have a connection exchange text for these types, arrays as lists of theirs.

    The driver's public door, `set_type_codec`, takes text for neither ranges nor records, nor
    domains (its own documentation says so), and asks the server for each type.
    So this goes by the door behind it.
    """
    settings = connection._protocol.get_settings()  # noqa: SLF001 - said above
    readers: dict[int, Callable[[str], Any]] = {}
    arrays: dict[int, Callable[[str], Any]] = {}
    for oid, name, array, sign in types:
        readers[oid] = _READ.get(name, str)
        if array:
            arrays[array] = partial(_listed, read=readers[oid], piece=_pieces(sign))
    for oid, read in (readers | arrays).items():
        settings.add_python_codec(oid, "", "", [], "scalar", _written, read, "text")


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    return rf"\x{value.hex()}" if isinstance(value, bytes) else str(value)


def _pieces(sign: str) -> re.Pattern[str]:
    """The pieces of an array's text: braces, quoted or plain elements; not the signs between."""
    return re.compile(rf'[{{}}]|"(?:[^"\\]|\\.)*"|[^{{}}"{sign}]+', re.DOTALL)


def _listed(text: str, read: Callable[[str], Any], piece: re.Pattern[str]) -> Any:
    """The lists of an array's text; where its places are counted from is left out."""
    open_lists: list[list[Any]] = [[]]
    for found in piece.findall(text, text.index("{")):
        if found == "{":
            open_lists.append([])
        elif found == "}":
            full = open_lists.pop()
            open_lists[-1].append(full)
        elif found[0] == '"':
            open_lists[-1].append(read(_ESCAPED.sub(r"\1", found[1:-1])))
        else:
            open_lists[-1].append(None if found == "NULL" else read(found))
    return open_lists[0][0]
