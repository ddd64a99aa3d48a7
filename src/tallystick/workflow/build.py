"""From a `Bundle` of Python definitions to a bundle of documents (02 section 3).

Pure: sources come as names and bytes, and equal sources give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.model import bundle as model_bundle
from tallystick.model.bundle_authority import structural_authority
from tallystick.model.bundle_python import python_bundle, vendored_in
from tallystick.model.definitions import refusal
from tallystick.model.manifest_sources import read_sources
from tallystick.values import names
from tallystick.values.schema.annotations import record_of, type_of
from tallystick.workflow import shape as shapes
from tallystick.workflow.bundle import Bundle, PureSpec, WorkflowSpec, name_of_workflow
from tallystick.workflow.codec import codec_of
from tallystick.workflow.effects import EffectType
from tallystick.workflow.records import RecordType
from tallystick.workflow.shape import Shape, shape_of

ASYNC_STATE: Final = "sys/AsyncState@1"
CONTEXT: Final = "sys/WorkflowContext@1"
PYTHON: Final = "3.11"

Document = dict[str, Any]


def build(app: Bundle, files: Mapping[str, bytes], *, structural: bool = True) -> Any:
    """The bundle of an app whose sources are `files`; refuses with the first finding.

    `structural` writes out structural authority unless the app brings its own.
    """
    root, artifacts = python_bundle(files, vendored=vendored_in(files))
    sources = read_sources(documents(app, root))
    if structural:
        sources = structural_authority(sources)
    if sources.manifest is None:
        raise refusal(list(sources.findings))
    return model_bundle.make_bundle(sources.definitions, sources.manifest, artifacts)


@contextmanager
def _inside(definition: str, shown: str) -> Iterator[None]:
    """What is refused within says whose it is: the definition, and its name in front."""
    try:
        yield
    except BadDefinition as why:
        if "def" in why.where:
            raise
        field = str(why.where.get("path", "")).strip("/").replace("/", ".")
        message = f"{'.'.join(part for part in (shown, field) if part)}: {why.message}"
        where = {**why.where, "def": definition}
        raise BadDefinition(message, code=why.code, where=where, hint=why.hint) from why


def documents(app: Bundle, root_hash: str) -> list[Document]:
    """Every definition of an app and its manifest, for an artifact of that hash."""
    made = _Writer(app, root_hash)
    for spec in app.workflows.values():
        made.workflow(spec)
    for pure in app.pures:
        made.pure(pure)
    for cls in _emittable(app):
        made.name_of(cls)
    return made.documents()


def _emittable(app: Bundle) -> list[type]:
    """The records in reach of the code: what it emits stands in no annotation."""
    found: dict[type, None] = {}
    for spec in app.workflows.values():
        for value in spec.tick.__globals__.values():
            ours = (getattr(value, "__module__", None) or "").startswith("tallystick.")
            if isinstance(value, RecordType) and not isinstance(value, EffectType) and not ours:
                found[value] = None
    return list(found)


class _Writer:
    """Collects definitions by kind and name; what is reachable is defined once."""

    def __init__(self, app: Bundle, root_hash: str) -> None:
        self.app = app
        self.artifact = {"kind": "python_bundle", "root_hash": root_hash}
        self.schemas: dict[str, Document] = {}
        self.made: list[Document] = []
        self.effects: dict[str, Document] = {}
        self.pures: dict[str, Document] = {}
        self.routes: list[Document] = []

    # ---- schemas ----------------------------------------------------------------------------

    def name_of(self, cls: type) -> str | None:
        """The name of a class as a schema, which is written when it is met first."""
        name = self.app.name_of(cls)
        if names.is_reserved(name):
            return name
        if name not in self.schemas:
            self.schemas[name] = {}  # before its fields: a record that holds itself is refused
            with _inside(name, cls.__name__):
                self.schemas[name] = _schema(name, record_of(cls, self.name_of))
        return name

    def schema(self, annotation: Any, name: str) -> str:
        """The schema of any annotation: a class by its own name, else written under `name`."""
        type_ = type_of(annotation, self.name_of)
        if "ref" in type_:
            return str(type_["ref"])
        self.schemas[name] = _schema(name, type_)
        return name

    # ---- workflows --------------------------------------------------------------------------

    def workflow(self, spec: WorkflowSpec) -> None:
        """A workflow with everything it reaches."""
        with _inside(spec.name, names.stem_of(spec.name).rpartition("/")[2]):
            self._workflow(spec)

    # tidy: one row per field of the definition.
    def _workflow(self, spec: WorkflowSpec) -> None:
        shape, said = shape_of(spec), spec.options
        stem, version = names.stem_of(spec.name), names.version_of(spec.name)
        state = ASYNC_STATE
        if not spec.is_async:
            state = self.schema(shape.state, f"{stem}.state@{version}")
        defn: Document = {
            "$kind": "defworkflow",
            "name": spec.name,
            "state": state,
            "event": self._event(shape, f"{stem}.event@{version}"),
            "context": CONTEXT,
            "effects_emitted": [self._effect(cls) for cls in shape.effects.values()],
            "lifecycle": said.lifecycle,
            "determinism": said.determinism,
            "on_fault": said.on_fault or ("suspend" if spec.is_async else "fail"),
            "reads": [name_of_workflow(other) for other in said.reads],
            "cap_slots": dict(said.slots),
            "limits": dict(said.limits),
            "state_version": said.state_version,
            "accepts_state_versions": list(said.accepts),
            "metadata": _metadata(spec),
            "impl": {"module": self._module("code"), "entrypoint": entrypoint(spec.code)},
        }
        key = shapes.key_type(spec, shape)
        if key is not None:
            defn["key_schema"] = f"{stem}.key@{version}"
            self.schemas[defn["key_schema"]] = _schema(defn["key_schema"], key)
        self.made.append(defn)
        self._subscribe(spec, shape)

    def _event(self, shape: Shape, name: str) -> str:
        refs = {tag: str(self.name_of(cls)) for tag, cls in shape.arms.items()}
        if shape.plain_event:
            return next(iter(refs.values()))
        arms = {tag: {"ref": ref} for tag, ref in {**refs, **shape.kernel_arms()}.items()}
        self.schemas[name] = _schema(name, {"variant": arms})
        return name

    def _subscribe(self, spec: WorkflowSpec, shape: Shape) -> None:
        for on in shapes.subscriptions(spec, shape):
            route: Document = {"event": self.name_of(on.event), "workflow": spec.name}
            if on.key is not None:
                route["key_field"] = on.key
            filters = {k: list(v) for k, v in (("origin", on.origin), ("tags", on.tags)) if v}
            if filters:
                route["filter"] = filters
            if not on.create:
                route["create_if_missing"] = False
            if on.init is not None:
                route["init_state"] = codec_of(type(on.init)).plain(on.init)
            self.routes.append(route)

    def _effect(self, cls: Any) -> str:
        name = self.app.name_of(cls)
        if names.is_reserved(name) or name in self.effects:
            return name
        spec = cls.tally_effect
        if spec.executor is None or spec.receipt is None:
            message = f"{cls.__name__} does not say who performs it and what comes back"
            hint = 'write class Charge(Effect[Charged], executor="payments")'
            raise BadDefinition(message, code="workflow.effect_unknown", hint=hint)
        stem, version = names.stem_of(name), names.version_of(name)
        defn: Document = {
            "$kind": "defeffect",
            "name": name,
            "params": self.name_of(cls),
            "receipt": self.schema(spec.receipt, f"{stem}.receipt@{version}"),
            "cap_type": spec.cap_type,
            "idempotent": spec.idempotent,
            "pure": spec.pure,
            "impl": {"module": self._module("outside"), "entrypoint": spec.executor},
        }
        if spec.timeout_ns is not None:
            defn["timeout_ns"] = spec.timeout_ns
        if spec.progress is not None:
            defn["progress"] = self.schema(spec.progress, f"{stem}.progress@{version}")
        self.effects[name] = defn
        return name

    # ---- pure functions ---------------------------------------------------------------------

    def pure(self, spec: PureSpec) -> None:
        """A pure function, and the upcast or migration that it serves as."""
        entry = entrypoint(spec.code)
        stem = f"{self.app.namespace}/{spec.code.__name__}"
        impl = {"module": self._module("pure"), "entrypoint": entry}
        if spec.role == "migrate":
            workflow, old, new = spec.between
            self.pures[entry] = {"input": "sys/MigrateState@1", "output": "sys/MigratedState@1"}
            name = name_of_workflow(workflow)
            made = {"$kind": "defmigration", "workflow": name, "from": old, "to": new}
            self.made.append({**made, "name": f"{stem}@1", "impl": impl})
            return
        hints = pure_hints(spec)
        ends = [self.schema(hints[0], f"{stem}.input@1"), self.schema(hints[1], f"{stem}.output@1")]
        self.pures[entry] = {"input": ends[0], "output": ends[1]}
        if spec.role == "upcast":
            old, new = (self.name_of(cls) for cls in spec.between)
            made = {"$kind": "defupcast", "name": f"{stem}@1", "from": old, "to": new}
            self.made.append({**made, "impl": impl})

    # ---- all of it --------------------------------------------------------------------------

    def _module(self, kind: str) -> str:
        return f"{self.app.namespace}/{kind}@1"

    def _bindings(self) -> Document:
        """Workflow -> its slots; a plain name is a workflow of this namespace."""
        return {
            name if "/" in name else f"{self.app.namespace}/{name}@1": {"slots": dict(row)}
            for name, row in self.app.bindings.items()
        }

    # tidy: the manifest, field by field.
    def documents(self) -> list[Document]:
        """Everything collected, with modules and manifest."""
        runtime = {"kind": "python", "python": PYTHON, "artifact": self.artifact}
        modules: list[Document] = [
            {"$kind": "defmodule", "name": self._module("code"), "runtime": runtime}
        ]
        if self.effects:
            runtime_out = {"kind": "external"}
            modules.append(
                {"$kind": "defmodule", "name": self._module("outside"), "runtime": runtime_out}
            )
        if self.pures:
            pure = {"$kind": "defmodule", "name": self._module("pure"), "pure": self.pures}
            modules.append({**pure, "runtime": runtime})
        manifest: Document = {
            "$kind": "manifest",
            "air_version": "2",
            "routing": {"subscriptions": self.routes},
        }
        if self.app.limits:
            manifest["limits"] = dict(self.app.limits)
        if self.app.bindings:
            manifest["module_bindings"] = self._bindings()
        for name, said in (("authority", self.app.authority), ("governance", self.app.governance)):
            if said is not None:
                manifest[name] = dict(said)
        given = [dict(definition) for definition in self.app.definitions]
        schemas = list(self.schemas.values())
        return [*schemas, *modules, *self.effects.values(), *self.made, *given, manifest]


def entrypoint(code: Any) -> str:
    """`module:object` of a function or class of the artifact."""
    return f"{code.__module__}:{code.__qualname__}"


def pure_hints(spec: PureSpec) -> tuple[Any, Any]:
    """What a pure function takes and gives, by annotation; refuses one that does not say."""
    if spec.role == "upcast":
        return spec.between[0], spec.between[1]
    import_hints = dict(spec.code.__annotations__)
    given = spec.code.__code__.co_varnames[: spec.code.__code__.co_argcount]
    if len(given) != 1 or given[0] not in import_hints or "return" not in import_hints:
        message = f"{spec.code.__name__} does not say what it takes and gives"
        hint = "annotate its one argument and its result"
        raise BadDefinition(message, code="def.bad_value", hint=hint)
    return import_hints[given[0]], import_hints["return"]


def _metadata(spec: WorkflowSpec) -> Document:
    said = spec.options
    summary = said.summary
    if summary is None:
        summary = (spec.code.__doc__ or "").strip().partition("\n")[0][:200] or None
    found = {"summary": summary, "tags": list(said.tags), "owners": list(said.owners)}
    return {name: value for name, value in found.items() if value}


def _schema(name: str, type_: Document) -> Document:
    return {"$kind": "defschema", "name": name, "type": type_}
