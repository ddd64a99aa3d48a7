"""The Python lane: source bytes in, a frozen namespace out (05 section 3).

Theory of operation.
An artifact is a set of files.
Each is parsed, checked, rewritten and compiled once; a namespace is executed from the compiled
code as often as somebody needs a fresh one.
Code sees the allowed part of allowed modules and the files beside it, nothing else.
After execution, module state is frozen: what could remember something between two ticks is
refused by name.
The lane finds mistakes; it does not stop an attacker (D14).
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.model.bundle_python import is_vendored
from tallystick.modules.lane_check import breaches
from tallystick.modules.lane_frozen import refuse_mutable
from tallystick.modules.lane_rewrite import OWN, TICK, rewrite
from tallystick.modules.lane_rules import Rules, facade, rules_of
from tallystick.modules.lane_runtime import LaneStop, Meter, builtins_of, owner_of, runtime_of
from tallystick.modules.lane_turned import TURNED
from tallystick.modules.parse import parsed
from tallystick.workflow.bundle import Bundle

LOAD_FUEL: Final = 10_000_000


class Compiled:
    """The code of an artifact, checked and rewritten; immutable, so worlds may share it."""

    __slots__ = ("codes", "rules", "vendored")

    def __init__(self, files: Mapping[str, bytes], lane: int) -> None:
        self.rules: Rules = rules_of(lane)
        self.codes: dict[str, tuple[str, types.CodeType]] = {}
        # The packages that were vendored may be imported by name, and under the same checks.
        self.vendored = _packages(files, self.rules)
        for path in sorted(files):
            if path.endswith(".py"):
                code = compiled(path, files[path], self.rules, self.vendored)
                self.codes[module_of(path)] = (path, code)


def _packages(files: Iterable[str], rules: Rules) -> frozenset[str]:
    """The names of vendored packages; refuses one that hides a module of the lane or a file."""
    found = {module_of(path).partition(".")[0] for path in files if is_vendored(path)}
    own = {module_of(path).partition(".")[0] for path in files if not is_vendored(path)}
    hidden = sorted(found & (own | {name.partition(".")[0] for name in rules.imports}))
    if hidden:
        message = f"the vendored package {hidden[0]} hides another module"
        hint = "vendor it under another name, or rename the file"
        raise BadDefinition(message, code="lane.vendored", where={"name": hidden[0]}, hint=hint)
    return frozenset(found)


def compiled(
    path: str, source: bytes, rules: Rules, vendored: frozenset[str] = frozenset()
) -> types.CodeType:
    """The code of one file; refuses what does not parse and what leaves the lane."""
    try:
        tree = parsed(source, path)
    except (SyntaxError, ValueError) as why:
        line = getattr(why, "lineno", None) or 0
        where = {"path": path, "line": line}
        hint = "correct the syntax there, or on the line above"
        raise BadDefinition(f"{path}: {why}", code="lane.syntax", where=where, hint=hint) from why
    for breach in breaches(tree, rules, vendored):
        where = {"path": path, "line": breach.line, "lint": breach.code}
        message = f"{path}:{breach.line}: {breach.code} {breach.message}"
        raise BadDefinition(message, code="lane.refused", where=where, hint=breach.hint)
    # Optimisation and future flags of the host must not change what runs.
    return compile(rewrite(tree), path, "exec", dont_inherit=True, optimize=0)


class Space:
    """One execution of an artifact: its modules, their meter, their objects.

    With `turned`, sets give their members in the opposite order.
    """

    def __init__(self, code: Compiled, *, turned: bool = False) -> None:
        self._code = code
        self.meter = Meter()
        self.modules: dict[str, types.ModuleType] = {}
        self._builtins = builtins_of(code.rules, self._import)
        if turned:
            self._builtins = {**self._builtins, **TURNED}
        self._runtime = runtime_of(code.rules, self.meter)
        self._runtime[OWN] = owner_of(self._builtins["set"])
        self.start(LOAD_FUEL)
        for name in code.codes:
            self._load(name)
        for name, module in self.modules.items():
            refuse_mutable(code.codes[name][0], module)

    def start(self, budget: int) -> None:
        """A new budget for all that runs in this namespace."""
        self.meter.start(budget)
        step = self._runtime[TICK] = self.meter.step
        for module in self.modules.values():
            module.__dict__[TICK] = step

    def paths(self) -> frozenset[str]:
        """The files of the artifact, as tracebacks name them."""
        return frozenset(path for path, _ in self._code.codes.values())

    def find(self, entrypoint: str) -> Any:
        """The object behind `module:object`; refuses one that is not there."""
        name, _, path = entrypoint.partition(":")
        found: Any = self.modules.get(name)
        for part in path.split("."):
            found = None if found is None else getattr(found, part, None)
        if found is None:
            message = f"the artifact has no {entrypoint}"
            raise BadDefinition(message, code="module.no_entrypoint", where={"path": entrypoint})
        return found

    def bundles(self) -> list[Bundle]:
        """The kit's bundles that the modules define, each once."""
        found: dict[int, Bundle] = {}
        for module in self.modules.values():
            for value in vars(module).values():
                if isinstance(value, Bundle):
                    found[id(value)] = value
        return list(found.values())

    def _load(self, name: str) -> types.ModuleType:
        known = self.modules.get(name)
        if known is not None:
            return known
        path, code = self._code.codes[name]
        module = types.ModuleType(name)
        module.__dict__.update(self._runtime)
        module.__dict__["__builtins__"] = dict(self._builtins)
        inner = path.endswith("/__init__.py")
        module.__dict__["__package__"] = name if inner else name.rpartition(".")[0]
        self.modules[name] = module
        try:
            exec(code, module.__dict__)  # noqa: S102 - checked, rewritten code of the artifact
        except BadDefinition as why:
            if "line" in why.where:
                raise
            where = {"file": path, "line": _line_in(path, why), **why.where}
            raise BadDefinition(why.message, code=why.code, where=where, hint=why.hint) from why
        except (Exception, LaneStop) as why:
            line = _line_in(path, why)
            message = f"{path}:{line} cannot be loaded: {type(why).__name__}: {why}"
            hint = "define names before they are used; a module only defines, it does not run"
            where = {"path": path, "line": line}
            raise BadDefinition(message, code="lane.load", where=where, hint=hint) from why
        return module

    def _import(
        self,
        name: str,
        scope: Mapping[str, Any] | None = None,
        _locals: Any = None,
        wanted: Any = (),
        level: int = 0,
    ) -> types.ModuleType:
        """What `import` means in the lane: files of the artifact, and facades of the allowed."""
        if level:
            base = str((scope or {}).get("__package__", ""))
            for _ in range(level - 1):
                base = base.rpartition(".")[0]
            return self._beside(f"{base}.{name}".strip("."), wanted)
        if name.partition(".")[0] in self._code.vendored:
            return self._vendored(name, wanted)
        made = facade(self._code.rules.lane, name)
        if wanted or "." not in name:
            return made
        top = types.ModuleType(name.split(".", maxsplit=1)[0])
        setattr(top, name.rpartition(".")[2], made)
        return top

    def _beside(self, inner: str, wanted: Any) -> types.ModuleType:
        """A file or folder of the artifact by its relative name, with the files asked for in it."""
        known = self._code.codes
        found = self._load(inner) if inner in known else types.ModuleType(inner)
        for part in wanted or ():
            beside = f"{inner}.{part}".strip(".")
            if beside in known and not hasattr(found, part):
                setattr(found, part, self._load(beside))
        return found

    def _vendored(self, name: str, wanted: Any) -> types.ModuleType:
        """A module of a vendored package, with the modules around it as Python has them."""
        parts = name.split(".")
        chain = [self._load(".".join(parts[: i + 1])) for i in range(len(parts))]
        for above, below, part in zip(chain, chain[1:], parts[1:], strict=False):
            setattr(above, part, below)
        for part in wanted or ():
            inner = f"{name}.{part}"
            if inner in self._code.codes:
                setattr(chain[-1], part, self._load(inner))
        return chain[-1] if wanted else chain[0]


def _line_in(path: str, why: BaseException) -> int:
    """The line of a file that was being executed when something was raised."""
    line, at = 0, why.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == path:
            line = at.tb_lineno
        at = at.tb_next
    return line


def module_of(path: str) -> str:
    """The name under which a file of an artifact is imported."""
    if is_vendored(path):
        path = path.split("/", 2)[2]
    stem = path.removesuffix(".py").replace("/", ".")
    return stem.removesuffix(".__init__") if stem.endswith(".__init__") else stem
