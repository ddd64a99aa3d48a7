"""The rules of house style, each a function from source to findings.

A rule takes a `Source` and yields one sentence per finding, with its line.
`tests/test_tidy.py` runs them over the project, and over planted text that each must refuse.
Soft limits may be passed with a comment `# tidy: why`: at the margin for a file, on, above or
inside a function for that function; hard limits may not.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

FILE_SOFT, FILE_HARD = 300, 500
FUNCTION_SOFT, FUNCTION_HARD = 30, 60
LINE_MAX, ARGUMENTS_MAX, NESTING_MAX = 100, 5, 4
PURE_ROOMS = (
    *("values", "model", "authority", "kernel", "modules", "workflow", "playbooks"),
    *("reactions", "governance", "views"),
)
BELOW_NODE = (*PURE_ROOMS, "journal", "executors")
BAD_NAMES = frozenset({"utils", "util", "common", "core", "helpers", "helper", "manager", "misc"})
EXCUSE = re.compile(r"# tidy: \S.{5,}")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Finding = tuple[int, str]


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root of the project, and its text."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def tokens(self) -> Iterator[tokenize.TokenInfo]:
        """Slow to make: the rules ask only where the plain text gives a reason."""
        return tokenize.generate_tokens(io.StringIO(self.text).readline)

    @property
    def room(self) -> str:
        """The room of the product that the file belongs to, or mirrors as a test; else ''."""
        parts = PurePosixPath(self.path).parts
        for top in (("src", "tallystick"), ("tests",)):
            if parts[: len(top)] == top and len(parts) > len(top) + 1:
                return parts[len(top)]
        return ""

    @property
    def shipped(self) -> bool:
        return self.path.startswith("src/")

    @property
    def pure(self) -> bool:
        return self.shipped and self.room in PURE_ROOMS

    @cached_property
    def functions(self) -> list[Function]:
        """Every function of the file, nested ones too."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]


def file_size(source: Source) -> Iterator[Finding]:
    """A file has at most 500 lines, and over 300 says why."""
    count = len(source.lines)
    if count > FILE_HARD:
        yield count, f"file has {count} lines, over {FILE_HARD}"
    elif count > FILE_SOFT and not any(EXCUSE.match(line) for line in source.lines):
        yield count, f"file has {count} lines, over {FILE_SOFT}, and no '# tidy: why'"


def _excused(source: Source, function: Function) -> bool:
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    region = source.lines[max(0, first - 2) : function.end_lineno]
    return any(EXCUSE.search(line) for line in region)


def function_size(source: Source) -> Iterator[Finding]:
    """A function has at most 60 lines, and over 30 says why."""
    for function in source.functions:
        count = (function.end_lineno or function.lineno) - function.lineno + 1
        if count > FUNCTION_HARD:
            yield function.lineno, f"{function.name} has {count} lines, over {FUNCTION_HARD}"
        elif count > FUNCTION_SOFT and not _excused(source, function):
            yield function.lineno, f"{function.name} has {count} lines, and no '# tidy: why'"


def line_length(source: Source) -> Iterator[Finding]:
    """A line has at most 100 characters."""
    for number, line in enumerate(source.lines, 1):
        # The reason beside an ignore has to stand on the line that it is about.
        shown = re.sub(r"  # (type: ignore|noqa|pyright: ignore).*", "", line)
        if len(shown) > LINE_MAX:
            yield number, f"line has {len(shown)} characters, over {LINE_MAX}"


def arguments(source: Source) -> Iterator[Finding]:
    """A function takes at most 5 arguments by position."""
    for function in source.functions:
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if names and names[0] in {"self", "cls", "mcs"}:
            del names[0]
        if len(names) > ARGUMENTS_MAX:
            yield function.lineno, f"{function.name} takes {len(names)} arguments by position"


_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def _depth(node: ast.AST) -> int:
    """How deep blocks stand inside each other below a node; an elif stands beside its if."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*Function.__args__, ast.ClassDef, ast.Lambda)):
            continue
        beside = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        step = isinstance(child, _BLOCKS) and not (beside and len(node.orelse) == 1)  # type: ignore[attr-defined]  # beside: an If
        deepest = max(deepest, step + _depth(child))
    return deepest


def nesting(source: Source) -> Iterator[Finding]:
    """Blocks stand at most 4 deep."""
    for function in source.functions:
        if (depth := _depth(function)) > NESTING_MAX:
            yield function.lineno, f"{function.name} nests {depth} deep, over {NESTING_MAX}"


def names(source: Source) -> Iterator[Finding]:
    """No file, folder, class or function has a name that means anything and nothing."""
    path = PurePosixPath(source.path)
    for part in (*path.parts[:-1], path.stem):
        if BAD_NAMES.intersection(part.lower().split("_")):
            yield 1, f"the name {part!r} says nothing"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", node.name)}
            if words & BAD_NAMES:
                yield node.lineno, f"the name {node.name!r} says nothing"
        elif isinstance(node, Function) and node.name.strip("_") in BAD_NAMES:
            yield node.lineno, f"the name {node.name!r} says nothing"


def _is_code(text: str) -> bool:
    """Whether a comment would run: a statement, not a word, a number or a sentence."""
    text = text.strip()
    if re.match(r"(if|elif|for|while|with|def|class|async|try|else|except)\b.*:$", text):
        text = re.sub(r"^elif\b", "if", re.sub(r"^(else|try|except\b.*):$", "if 1:", text))
        text += " pass"
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return False
    if not body:
        return False
    node = body[0]
    if isinstance(node, ast.AnnAssign):  # "note: this" is a sentence
        return node.value is not None
    if isinstance(node, ast.Expr):
        return isinstance(node.value, (ast.Call, ast.Await, ast.Yield))
    return True


def commented_out_code(source: Source) -> Iterator[Finding]:
    """A comment is a sentence, not code that somebody could not throw away."""
    suspects = {
        number
        for number, line in enumerate(source.lines, 1)
        if line.lstrip().startswith("#") and _is_code(line.lstrip("# "))
    }
    for token in source.tokens if suspects else ():
        comment = token.type == tokenize.COMMENT and token.start[0] in suspects
        if comment and not token.string.startswith("#!"):
            yield token.start[0], f"commented-out code: {token.string}"


def prints(source: Source) -> Iterator[Finding]:
    """Only the command line prints."""
    if not source.shipped or source.room == "cli":
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "sys.stdout.write"}:
            yield node.lineno, "prints outside cli"


def bare_except(source: Source) -> Iterator[Finding]:
    """What is caught is named."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "bare except"


def todo_without_issue(source: Source) -> Iterator[Finding]:
    """Work left over has an issue: a word like that without #number is a wish."""
    for token in source.tokens if re.search(r"TODO|FIXME|XXX|HACK", source.text) else ():
        if token.type != tokenize.COMMENT:
            continue
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b(?!.*#\d+)", token.string):
            yield token.start[0], f"without an issue: {token.string}"


def room_statement(source: Source) -> Iterator[Finding]:
    """A room says what it owns, what it may import and what it refuses."""
    parts = PurePosixPath(source.path).parts
    if not (source.shipped and len(parts) == 4 and parts[-1] == "__init__.py"):
        return
    text = ast.get_docstring(source.tree) or ""
    for word in ("Owns:", "May import:", "Refuses:"):
        if not re.search(rf"^{word} \S", text, re.MULTILINE):
            yield 1, f"the room does not say {word!r}"


_TIMELY = re.compile(r"(^|_)(time|now|due|at|timeout|delay|deadline|age|elapsed|expires)(_|$)")
_COARSE = re.compile(r"_(s|sec|secs|seconds|ms|millis|us|minutes|hours)$")


def _annotations(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield node.lineno, node.arg, ast.unparse(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            target = ast.unparse(node.target).rsplit(".", 1)[-1]
            yield node.lineno, target, ast.unparse(node.annotation)


def time_in_pure_rooms(source: Source) -> Iterator[Finding]:
    """Time is an int of nanoseconds; datetime is known to two rooms, at the edge."""
    if not source.pure:
        return
    edge = source.path.startswith(("src/tallystick/values/schema/", "src/tallystick/workflow/"))
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not edge:
            modules = (
                [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
            if "datetime" in modules:
                yield node.lineno, "datetime in a pure room"
    for line, name, type_ in _annotations(source.tree):
        if re.search(r"\bfloat\b", type_) and _TIMELY.search(name):
            yield line, f"float time: {name}"
        if _COARSE.search(name) and type_ in {"int", "float"}:
            yield line, f"time in another unit than ns: {name}"


def mocks_below_node(source: Source) -> Iterator[Finding]:
    """Below the node, values go in and values come out (ST-07)."""
    if source.shipped or source.room not in BELOW_NODE:
        return
    for token in source.tokens if re.search("mock|monkey", source.text, re.IGNORECASE) else ():
        if token.type == tokenize.NAME and re.search(
            r"mock|monkeypatch", token.string, re.IGNORECASE
        ):
            yield token.start[0], f"{token.string} below node"


def ui_text(path: str, text: str) -> Iterator[Finding]:
    """The pages build no markup from text and carry no script in attributes."""
    for number, line in enumerate(text.splitlines(), 1):
        if "innerHTML" in line or "outerHTML" in line or "insertAdjacentHTML" in line:
            yield number, f"{path}: markup from text"
        if re.search(r"<[^>]*\son[a-z]+\s*=", line):
            yield number, f"{path}: inline handler"


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    file_size,
    function_size,
    line_length,
    arguments,
    nesting,
    names,
    commented_out_code,
    prints,
    bare_except,
    todo_without_issue,
    room_statement,
    time_in_pure_rooms,
    mocks_below_node,
)
