"""Source text to syntax tree: Jinja2 parses and does nothing else.

Size, bracket depth and number of tokens are checked before the parser sees the text, because the
parser recurses for brackets and its work grows with tokens.
The check is a guard against cost, not a second grammar: what it lets through, the parser and the
compiler still judge, and a recursion error is a fault like any other.
"""

from __future__ import annotations

import re

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from tallystick.values.expr.fault import BUDGET, RANGE, SYNTAX, fault
from tallystick.values.expr.run import DEPTH_MAX, text_size

SOURCE_MAX = 16 * 1024
TOKENS_MAX = 2048

# Only the grammar of this environment is used: it has no extensions, loads and renders nothing.
_GRAMMAR = Environment(keep_trailing_newline=True)  # noqa: S701 - it never renders

_OPEN = re.compile(r"\{\{|\{%|\{#")
_TOKEN = re.compile(r"\s+|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\w+|.", re.DOTALL)


def has_markers(text: str) -> bool:
    """True when a text holds anything to evaluate."""
    return _OPEN.search(text) is not None


def parse(source: str) -> nodes.Template:
    """The tree of a template; P201 for bad syntax, P204 for too much of it."""
    check_size(source)
    try:
        return Parser(_GRAMMAR, source).parse()
    except TemplateSyntaxError as error:
        raise fault(SYNTAX, f"line {error.lineno}: {error.message}") from None
    except RecursionError:
        raise fault(BUDGET, f"nesting over {DEPTH_MAX}") from None
    except (ValueError, OverflowError):
        raise fault(RANGE, "a number is out of range") from None


def check_size(source: str) -> None:
    """Refuse a source that is too long, too deep or too busy to be parsed at all."""
    if len(source) > SOURCE_MAX or text_size(source) > SOURCE_MAX:
        raise fault(BUDGET, f"the source is over {SOURCE_MAX} bytes")
    if any(0xD800 <= ord(c) <= 0xDFFF for c in source):
        raise fault(SYNTAX, "the source holds a lone surrogate")
    tokens = at = 0
    while (opened := _OPEN.search(source, at)) is not None:
        if opened.group() == "{#":
            end = source.find("#}", opened.end())
            at = len(source) if end < 0 else end + 2
        else:
            at, seen = _measure(source, opened.end())
            tokens += seen
        if tokens > TOKENS_MAX:
            raise fault(BUDGET, f"the source has over {TOKENS_MAX} tokens")


def _measure(source: str, at: int) -> tuple[int, int]:
    """The end of one `{{ }}` or `{% %}` and its tokens; refuses brackets over 64 deep."""
    depth = tokens = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        assert found is not None
        text = found.group()
        at = found.end()
        if text[0].isspace():
            continue
        tokens += 1
        if text in ("(", "[", "{"):
            depth += 1
            if depth > DEPTH_MAX:
                raise fault(BUDGET, f"brackets over {DEPTH_MAX} deep")
        elif text in (")", "]", "}"):
            if depth == 0:
                break
            depth -= 1
        if tokens > TOKENS_MAX:
            break
    return at, tokens
