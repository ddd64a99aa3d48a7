"""What runs in the sandbox for a `python` tool of a playbook.

The text of this file is the code of `python.run`; the tool's own code comes as an argument.
Args are its globals; it answers with `result`, with a `return` at its top level, or with `main`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes longer to import than most tools take
if TYPE_CHECKING:
    import ast
    from typing import Any


def main(code: str, args: dict[str, Any], libs: dict[str, str], context: dict[str, Any]) -> Any:
    """Run the code of a tool over its args."""
    names: dict[str, Any] = {"__name__": "tool", "context": context, "input_data": args}
    names.update({alias: imported(module) for alias, module in libs.items()})
    names.update(args)
    program, is_function = compiled(code)
    exec(program, names)  # noqa: S102 - its purpose
    if is_function:
        return names["_tool"]()
    if "result" in names and "result" not in args:
        return names["result"]
    entry = names.get("main")
    if callable(entry):
        return entry(**args)
    return names.get("result")


def imported(module: str) -> Any:
    """A module by its whole name."""
    from importlib import import_module  # noqa: PLC0415 - few tools name any

    return import_module(module)


def compiled(code: str) -> tuple[Any, bool]:
    """The program of a text; as a function, and True, when a `return` stands at its top level."""
    try:
        return compile(code, "<tool>", "exec"), False
    except SyntaxError:
        import ast  # noqa: PLC0415 - most code returns nothing at its top level

        tree = ast.parse(code, "<tool>")
        if not returns(tree.body):
            raise
        return compile(as_function(tree), "<tool>", "exec"), True


def returns(body: list[ast.stmt]) -> bool:
    """True when a `return` stands outside every function."""
    import ast  # noqa: PLC0415 - as above

    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(node)
    return False


def as_function(tree: ast.Module) -> ast.Module:
    """The code as a function whose names are still the globals."""
    import ast  # noqa: PLC0415 - as above

    stored: dict[str, None] = {}
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            stored[node.name] = None
        elif isinstance(node, ast.Import | ast.ImportFrom):
            stored.update({(a.asname or a.name).partition(".")[0]: None for a in node.names})
        elif not isinstance(
            node,
            ast.Lambda
            | ast.comprehension
            | ast.ListComp
            | ast.SetComp
            | ast.DictComp
            | ast.GeneratorExp,
        ):
            todo += ast.iter_child_nodes(node)
    head: list[ast.stmt] = [ast.Global(sorted(stored))] if stored else []
    made = ast.parse("def _tool():\n    pass")
    function = made.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [*head, *tree.body]
    return ast.fix_missing_locations(made)
