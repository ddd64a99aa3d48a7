"""Loading a bundle that is not in the world yet: what cannot be compiled is refused here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.authority.flow import compile_flows
from tallystick.authority.policy import Rules
from tallystick.errors import BadDefinition
from tallystick.kernel.world import World
from tallystick.model.catalogue import Catalogue
from tallystick.values import canon


def load_bundle(manifest: bytes, blobs: Mapping[bytes, bytes], world: World) -> Catalogue:
    """The catalogue of a bundle that is not in the world yet; refuses a broken one."""

    def node(text: str) -> Any:
        digest = canon.raw_of(text)
        data = blobs.get(digest) or world.blobs.get(digest)
        if data is None:
            raise BadDefinition(
                f"{text} is not in the bundle", code="bundle.incomplete", where={"hash": text}
            )
        return canon.decode(data)

    catalogue = Catalogue.load(node(canon.text_of(manifest)), node)
    # Folding never refuses, so what it would compile is compiled here first.
    Rules.compile(catalogue.policies)
    compile_flows(catalogue.flows, catalogue.budgets)
    return catalogue
