"""Pure functions of the kit: a record in, a record out, nothing else (K-02)."""

from __future__ import annotations

from typing import Any

from tallystick.errors import BadDefinition, NotCanonical, SchemaMismatch
from tallystick.model.abi import Halted
from tallystick.model.catalogue import Catalogue
from tallystick.modules.lane import Space
from tallystick.modules.lane_runtime import LaneStop
from tallystick.modules.reducers import said
from tallystick.values import canon
from tallystick.workflow.build import pure_hints
from tallystick.workflow.bundle import PureSpec
from tallystick.workflow.codec import AS_IS, Codec, codec_of


class PureFunction:
    """One pure function of a namespace, called with canonical documents."""

    def __init__(self, namespace: Space, entrypoint: str, engine: str) -> None:
        self._namespace = namespace
        self._code = namespace.find(entrypoint)
        self._engine = engine
        self._spec = _spec(namespace, self._code, entrypoint)
        self._ends: tuple[Codec, Codec] = _ends(self._spec)

    def __call__(self, catalogue: Catalogue, data: bytes) -> bytes | Halted:
        """The output document of an input document; whatever goes wrong is a fault."""
        namespace = self._namespace
        namespace.start(catalogue.limits.fuel)
        try:
            if self._spec.role == "migrate":
                return self._migrated(canon.decode(data))
            made = self._code(self._ends[0].value(canon.decode(data)))
            return canon.encode(self._ends[1].plain(made))
        except LaneStop as stop:
            return self._halted(stop.code, stop.message)
        except (NotCanonical, SchemaMismatch) as why:
            return self._halted("bad_output", why.message)
        except Exception as why:  # noqa: BLE001 - the fence around module code
            return self._halted("exception", said(why, namespace))

    def _migrated(self, asked: dict[str, Any]) -> bytes:
        old = self._ends[0].value(canon.decode(asked["state"]))
        state = canon.encode(self._ends[1].plain(self._code(old)))
        return canon.encode({"state": state})

    def _halted(self, code: str, message: str) -> Halted:
        return Halted(code, message, self._namespace.meter.used, self._engine)


def _spec(namespace: Space, code: Any, entrypoint: str) -> PureSpec:
    for bundle in namespace.bundles():
        for spec in bundle.pures:
            if spec.code is code:
                return spec
    message = f"{entrypoint} is not a pure function"
    raise BadDefinition(message, code="module.no_entrypoint", hint="decorate it with @app.pure")


def _ends(spec: PureSpec) -> tuple[Codec, Codec]:
    if spec.role != "migrate":
        before, after = pure_hints(spec)
        return codec_of(before), codec_of(after)
    hints = dict(spec.code.__annotations__)
    result = hints.pop("return", None)
    given = next(iter(hints.values()), None)
    return (
        AS_IS if given is None else codec_of(given),
        AS_IS if result is None else codec_of(result),
    )
