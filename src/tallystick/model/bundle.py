"""A bundle: manifest, definitions and artifacts as one closed, hashed set (02 section 3).

The *bundle root* is the hash of the bundle document; it is what is approved and activated (X-19).
As members (a folder or a zip): `bundle.cbor`, `nodes/<hex>.cbor` for the manifest and for each
definition it lists, `artifacts/<hex>`, and `seals.cbor` when someone sealed it.
`sys/` definitions are ambient and never inside.
Loading hashes everything again: a bundle is what its root says, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from tallystick.errors import BadDefinition, NotCanonical
from tallystick.model import bundle_python
from tallystick.model.bundle_zip import read_zip, write_zip
from tallystick.model.catalogue import Catalogue
from tallystick.model.manifest import SECTIONS
from tallystick.model.manifest_sources import Sources, canonical_sources, read_sources
from tallystick.values import canon, names

DOCUMENT: Final = "bundle.cbor"
SEALS: Final = "seals.cbor"
WASM_MEDIA: Final = "application/wasm"


@dataclass(frozen=True, slots=True)
class Artifact:
    """The bytes of one artifact and what they are."""

    media: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """A closed set; `nodes` and `artifacts` are keyed by text hash.

    `document` is the canonical bundle document and `root` its text hash.
    """

    manifest: dict[str, Any]
    nodes: Mapping[str, bytes]
    artifacts: Mapping[str, Artifact]
    document: bytes
    root: str
    seals: bytes | None = None

    @property
    def root_digest(self) -> bytes:
        """The bundle root, raw."""
        return canon.raw_of(self.root)

    @property
    def manifest_digest(self) -> bytes:
        """The hash of the manifest, raw."""
        return canon.digest(self.manifest)

    def node(self, hash_text: str) -> dict[str, Any]:
        """The definition behind a hash; refuses one that is not inside."""
        if hash_text not in self.nodes:
            _refuse("bundle.incomplete", f"{hash_text} is not in the bundle", hash_text)
        made: dict[str, Any] = canon.decode(self.nodes[hash_text])
        return made

    def catalogue(self) -> Catalogue:
        """The compiled definitions; refuses what could not run."""
        return Catalogue.load(self.manifest, self.node)

    def definitions(self) -> list[dict[str, Any]]:
        """Every definition, in the order of the manifest."""
        return [self.node(row["hash"]) for row in _entries(self.manifest)]

    def sources(self) -> Sources:
        """The bundle as sources again, for the checker."""
        return read_sources([self.definitions(), self.manifest])

    def blobs(self) -> dict[bytes, bytes]:
        """Everything a world needs in its blob store to run this bundle, by raw digest."""
        held = {canon.raw_of(hash_): data for hash_, data in self.nodes.items()}
        held |= {canon.raw_of(hash_): made.data for hash_, made in self.artifacts.items()}
        held[self.manifest_digest] = canon.encode(self.manifest)
        held[self.root_digest] = self.document
        return held

    def members(self) -> dict[str, bytes]:
        """The files of the bundle, by path."""
        made = {DOCUMENT: self.document}
        made[_node_path(canon.hash(self.manifest))] = canon.encode(self.manifest)
        made |= {_node_path(hash_): data for hash_, data in self.nodes.items()}
        made |= {_artifact_path(hash_): held.data for hash_, held in self.artifacts.items()}
        if self.seals is not None:
            made[SEALS] = self.seals
        return made

    def to_zip(self) -> bytes:
        """The one container of this bundle: equal bundles give equal bytes."""
        return write_zip(self.members())

    def sealed(self, seals: bytes) -> Bundle:
        """The same bundle with seals beside it; the root does not cover them."""
        made = (self.manifest, self.nodes, self.artifacts, self.document, self.root)
        return Bundle(*made, seals)


def make_bundle(
    definitions: Iterable[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    artifacts: Mapping[str, bytes] | None = None,
) -> Bundle:
    """The bundle of a canonical manifest; `artifacts` are bytes by text hash.

    Only what the manifest reaches is taken along.
    Refuses a listed definition or a named artifact that is missing: `bundle.incomplete`.
    """
    given = {canon.hash_of(data): data for data in map(canon.encode, map(dict, definitions))}
    nodes: dict[str, bytes] = {}
    for row in _entries(manifest):
        if row["hash"] not in given:
            _refuse("bundle.incomplete", f"{row['name']} is not in the bundle", row["hash"])
        nodes[row["hash"]] = given[row["hash"]]
    held = _reached(nodes, artifacts or {})
    document = canon.encode(
        {
            "$kind": "bundle",
            "manifest": canon.hash(manifest),
            "nodes": sorted(nodes),
            "artifacts": [
                {"hash": hash_, "size": len(held[hash_].data), "media": held[hash_].media}
                for hash_ in sorted(held)
            ],
        }
    )
    return Bundle(dict(manifest), nodes, held, document, canon.hash_of(document))


def build_bundle(documents: Iterable[Any], artifacts: Mapping[str, bytes] | None = None) -> Bundle:
    """The bundle of source documents; refuses with the first problem that is an error."""
    definitions, manifest = canonical_sources(documents)
    return make_bundle(definitions, manifest, artifacts)


def from_zip(data: bytes, root: str | None = None) -> Bundle:
    """The bundle in a container, as `from_members`."""
    return from_members(read_zip(data), root)


def from_members(members: Mapping[str, bytes], root: str | None = None) -> Bundle:
    """The bundle in a folder or container, every byte of it hashed again.

    Refuses what is listed and not there (`bundle.incomplete`), what is there and not listed
    (`bundle.extra`), and what is not what its name says (`bundle.hash_mismatch`).
    With `root`, a bundle of another root is refused too.
    """
    document = _member(members, DOCUMENT)
    if root is not None and canon.hash_of(document) != root:
        _refuse("bundle.hash_mismatch", f"the bundle is not {root}", DOCUMENT)
    listed = _read_document(document)
    nodes = {hash_: _hashed(members, _node_path(hash_), hash_) for hash_ in listed["nodes"]}
    manifest = _canonical(
        _hashed(members, _node_path(listed["manifest"]), listed["manifest"]),
        _node_path(listed["manifest"]),
    )
    wanted = [row["hash"] for row in listed["artifacts"]]
    artifacts = {hash_: _hashed(members, _artifact_path(hash_), hash_) for hash_ in wanted}
    made = _closed(manifest, nodes, artifacts)
    seals = members.get(SEALS)
    if seals is not None:
        _canonical(seals, SEALS)
        made = made.sealed(seals)
    expected = made.members()
    for path in sorted(members):
        if path not in expected:
            _refuse("bundle.extra", f"{path} does not belong to the bundle", path)
    if made.document != document:
        _refuse("bundle.hash_mismatch", "the bundle document is not that of its members", DOCUMENT)
    return made


def _closed(manifest: Any, nodes: Mapping[str, bytes], artifacts: Mapping[str, bytes]) -> Bundle:
    """The bundle over exactly these parts; refuses a manifest that is none."""
    for hash_, data in nodes.items():
        _canonical(data, _node_path(hash_))
    sources = read_sources([[canon.decode(nodes[hash_]) for hash_ in nodes], manifest])
    if sources.manifest != manifest or sources.manifest is None:
        errors = [finding for finding in sources.findings if not finding.warning]
        why = errors[0].message if errors else "it is not in canonical form"
        _refuse("bundle.hash_mismatch", f"the manifest cannot be read: {why}", DOCUMENT)
    return make_bundle(sources.definitions, sources.manifest, artifacts)


# ---- reading --------------------------------------------------------------------------------


def _read_document(document: bytes) -> dict[str, Any]:
    made = _canonical(document, DOCUMENT)
    good = (
        type(made) is dict
        and sorted(made) == ["$kind", "artifacts", "manifest", "nodes"]
        and made["$kind"] == "bundle"
        and _is_hash(made["manifest"])
        and _hashes(made["nodes"])
        and type(made["artifacts"]) is list
        and all(type(row) is dict for row in made["artifacts"])
        and _hashes([row.get("hash") for row in made["artifacts"]])
    )
    if not good:
        _refuse("bundle.hash_mismatch", "this is not a bundle document", DOCUMENT)
    found: dict[str, Any] = made
    return found


def _is_hash(value: Any) -> bool:
    return type(value) is str and names.is_hash(value)


def _hashes(value: Any) -> bool:
    """True for a sorted list of distinct hashes."""
    if type(value) is not list or not all(_is_hash(item) for item in value):
        return False
    return value == sorted(value) and len(value) == len({*value})


def _canonical(data: bytes, path: str) -> Any:
    try:
        return canon.decode(data)
    except NotCanonical as error:
        _refuse("bundle.hash_mismatch", f"{path} is not canonical: {error.message}", path)


def _member(members: Mapping[str, bytes], path: str) -> bytes:
    if path not in members:
        _refuse("bundle.incomplete", f"{path} is missing", path)
    return members[path]


def _hashed(members: Mapping[str, bytes], path: str, hash_text: str) -> bytes:
    data = _member(members, path)
    if canon.hash_of(data) != hash_text:
        _refuse("bundle.hash_mismatch", f"{path} is {canon.hash_of(data)}", path)
    return data


# ---- the closure ----------------------------------------------------------------------------


def _entries(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
    return [row for section in SECTIONS for row in manifest.get(section, ())]


def _reached(nodes: Mapping[str, bytes], given: Mapping[str, bytes]) -> dict[str, Artifact]:
    """Every artifact that the definitions name, and what those name in turn."""
    held: dict[str, Artifact] = {}
    for data in nodes.values():
        defn = canon.decode(data)
        artifact = defn.get("runtime", {}).get("artifact") if "runtime" in defn else None
        if artifact is None:
            continue
        at = defn["name"]
        if artifact["kind"] == "wasm_module":
            held[artifact["hash"]] = Artifact(WASM_MEDIA, _artifact(given, artifact["hash"], at))
            continue
        root = artifact["root_hash"]
        listing = _artifact(given, root, at)
        held[root] = Artifact(bundle_python.MEDIA, listing)
        for path, hash_ in bundle_python.read_python_bundle(listing)["files"]:
            media = bundle_python.media_of(path)
            # One content under two names: the listed media must not depend on which comes last.
            if hash_ not in held or media < held[hash_].media:
                held[hash_] = Artifact(media, _artifact(given, hash_, f"{at} {path}"))
    return held


def _artifact(given: Mapping[str, bytes], hash_text: str, wanted_by: str) -> bytes:
    if hash_text not in given:
        message = f"the artifact {hash_text} of {wanted_by} is missing"
        _refuse("bundle.incomplete", message, _artifact_path(hash_text))
    if canon.hash_of(given[hash_text]) != hash_text:
        _refuse("bundle.hash_mismatch", f"the artifact of {wanted_by} has another hash", hash_text)
    return given[hash_text]


def _node_path(hash_text: str) -> str:
    return f"nodes/{hash_text.removeprefix('sha256:')}.cbor"


def _artifact_path(hash_text: str) -> str:
    return f"artifacts/{hash_text.removeprefix('sha256:')}"


def _refuse(code: str, message: str, path: str) -> NoReturn:
    hint = "build the bundle again from its sources, or copy it again"
    raise BadDefinition(message, code=code, where={"path": path}, hint=hint)
