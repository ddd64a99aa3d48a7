"""Bundles: one closed set, one container, and nothing taken that does not hash."""

# tidy: one table of cases per rule, kept beside the test that reads it.

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
import zlib

import pytest

from tallystick.errors import BadDefinition, TooLarge
from tallystick.model import bundle_zip
from tallystick.model.bundle import Bundle, build_bundle, from_members, from_zip, make_bundle
from tallystick.model.bundle_authority import POLICY, structural_authority
from tallystick.model.bundle_python import (
    MEDIA,
    python_bundle,
)
from tallystick.model.bundle_zip import read_zip, write_zip
from tallystick.model.catalogue import Catalogue
from tallystick.model.manifest_sources import canonical_sources, read_sources
from tallystick.values import canon
from tests.model.test_lower import ROWS
from tests.model.test_lower import H as PLANTED

SOURCE = b"def flow(state, event, ctx):\n    return state\n"
WASM = b"\0asm\1\0\0\0"
ROOT, FILES = python_bundle({"orders.py": SOURCE, "data/rates.txt": b"1"})
ARTIFACTS = {**FILES, canon.hash_of(WASM): WASM}
E, FLOW = "com.acme/E@1", "com.acme/flow@1"
DOCUMENTS = [
    {"$kind": "defschema", "name": E, "type": {"record": {"id": {"text": {}}}}},
    {
        "$kind": "defmodule",
        "name": "com.acme/orders@1",
        "runtime": {"kind": "python", "artifact": {"kind": "python_bundle", "root_hash": ROOT}},
    },
    {
        "$kind": "defmodule",
        "name": "com.acme/keys@1",
        "pure": {"f": {"input": E, "output": E}},
        "runtime": {
            "kind": "wasm",
            "artifact": {"kind": "wasm_module", "hash": canon.hash_of(WASM)},
        },
    },
    {
        "$kind": "defworkflow",
        "name": FLOW,
        "state": E,
        "event": E,
        "effects_emitted": ["sys/timer.set@1", "sys/http.request@1", "sys/telemetry.emit@1"],
        "cap_slots": {"web": "http.out"},
        "impl": {"module": "com.acme/orders@1", "entrypoint": "orders:flow"},
    },
    {"$kind": "manifest", "routing": {"subscriptions": [{"event": E, "workflow": FLOW}]}},
]


def built(documents=DOCUMENTS, artifacts=ARTIFACTS):
    return build_bundle(documents, artifacts)


def code_of(action, *arguments):
    with pytest.raises(BadDefinition) as caught:
        action(*arguments)
    assert caught.value.hint
    return caught.value.code


# ---- the set --------------------------------------------------------------------------------


@pytest.mark.clause("X-19")
def test_a_bundle_is_the_closed_set_of_its_manifest():
    """X-19: the document names manifest, nodes and artifacts, sorted; its hash is the root."""
    made = built()
    document = canon.decode(made.document)
    assert sorted(document) == ["$kind", "artifacts", "manifest", "nodes"]
    assert document["manifest"] == canon.hash(made.manifest)
    assert document["nodes"] == sorted(
        row["hash"] for part in ("schemas", "modules", "workflows") for row in made.manifest[part]
    )
    assert {row["hash"]: (row["size"], row["media"]) for row in document["artifacts"]} == {
        ROOT: (len(FILES[ROOT]), MEDIA),
        canon.hash_of(SOURCE): (len(SOURCE), "text/x-python"),
        canon.hash_of(b"1"): (1, "application/octet-stream"),
        canon.hash_of(WASM): (len(WASM), "application/wasm"),
    }
    assert [row["hash"] for row in document["artifacts"]] == sorted(ARTIFACTS)
    assert made.root == canon.hash_of(made.document)


@pytest.mark.clause("X-19")
def test_what_the_manifest_does_not_list_stays_outside():
    """X-19: a definition that is not listed, and an artifact nobody names, change no root."""
    idle = {"$kind": "defpolicy", "name": "com.acme/idle@1"}
    listed = [*DOCUMENTS, {"$kind": "manifest", "policies": []}]
    made = built([*listed, idle], {**ARTIFACTS, canon.hash_of(b"x"): b"x"})
    assert made == built(listed) == built()


@pytest.mark.clause("X-19")
def test_blobs_are_all_that_a_world_needs():
    """X-19: manifest, nodes, artifacts and the bundle document, each under its own digest."""
    made = built()
    blobs = made.blobs()
    assert all(canon.digest_of(data) == digest for digest, data in blobs.items())
    assert blobs[made.root_digest] == made.document
    manifest = canon.decode(blobs[made.manifest_digest])
    loaded = Catalogue.load(manifest, lambda text: canon.decode(blobs[canon.raw_of(text)]))
    assert loaded.hash == made.manifest_digest == made.catalogue().hash
    assert len(blobs) == 2 + len(made.nodes) + len(made.artifacts)
    assert {canon.text_of(digest) for digest in blobs} >= ARTIFACTS.keys()


@pytest.mark.clause("X-19")
def test_what_is_missing_is_refused_at_build():
    """X-19: an artifact or a definition that is not there is `bundle.incomplete`."""
    for missing in ARTIFACTS:
        rest = {text: ARTIFACTS[text] for text in ARTIFACTS if text != missing}
        assert code_of(built, DOCUMENTS, rest) == "bundle.incomplete"
    definitions, manifest = canonical_sources(DOCUMENTS)
    assert code_of(make_bundle, definitions[1:], manifest, ARTIFACTS) == "bundle.incomplete"
    assert code_of(built().node, PLANTED) == "bundle.incomplete"
    spoiled = {**ARTIFACTS, canon.hash_of(WASM): WASM + b"\0"}
    assert code_of(built, DOCUMENTS, spoiled) == "bundle.hash_mismatch"


def test_one_content_under_two_names_has_one_media():
    """X-19: the media type never depends on the order of names."""
    for names in (("a.py", "b.txt"), ("b.py", "a.txt")):
        root, files = python_bundle(dict.fromkeys(names, b"same"))
        module = {**DOCUMENTS[1]}
        module["runtime"] = {
            "kind": "python",
            "artifact": {"kind": "python_bundle", "root_hash": root},
        }
        made = build_bundle([module], files)
        assert made.artifacts[canon.hash_of(b"same")].media == "application/octet-stream"


@pytest.mark.clause("K-32")
@pytest.mark.parametrize("row", ROWS)
def test_both_spellings_are_one_bundle(row):
    """MO-02: each row of 02 section 4 gives one bundle root and one container."""
    older, newer = (
        json.loads(json.dumps(documents).replace(PLANTED, canon.hash_of(WASM)))
        for documents in ROWS[row]
    )
    held = {canon.hash_of(WASM): WASM}
    one, other = build_bundle(older, held), build_bundle(newer, held)
    assert one.root == other.root
    assert one.to_zip() == other.to_zip()
    assert one.sources().findings == ()


# ---- members --------------------------------------------------------------------------------


@pytest.mark.clause("X-19")
def test_members_and_container_read_back():
    """X-19: folder and zip are two forms of one bundle, seals beside it."""
    made = built()
    assert from_members(made.members()) == from_zip(made.to_zip(), made.root) == made
    sealed = made.sealed(canon.encode([{"alg": "ed25519"}]))
    assert from_zip(sealed.to_zip()) == sealed
    assert sealed.root == made.root
    assert "seals.cbor" not in made.members()


@pytest.mark.clause("X-19")
def test_every_flipped_byte_is_refused():
    """MO-14: one flipped bit anywhere in the container is refused with a bundle code."""
    whole = built().to_zip()
    found = set()
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << (at % 8)
        found.add(code_of(from_zip, bytes(flipped)))
    assert found <= {"bundle.hash_mismatch", "bundle.incomplete", "bundle.extra"}


MEMBERS = built().members()


@pytest.mark.clause("X-19")
@pytest.mark.parametrize("path", sorted(MEMBERS))
def test_one_flipped_byte_in_a_folder(path):
    """MO-14: without a container's checks, the hashes still refuse; the place is named."""
    for at in range(0, len(MEMBERS[path]), 7):
        flipped = bytearray(MEMBERS[path])
        flipped[at] ^= 1
        with pytest.raises(BadDefinition) as caught:
            from_members({**MEMBERS, path: bytes(flipped)})
        if path == "bundle.cbor":
            # Its own hash is the root, which only someone who knows it can compare.
            assert caught.value.code.startswith("bundle.")
        else:
            assert caught.value.code == "bundle.hash_mismatch"
            assert caught.value.where["path"] == path


@pytest.mark.clause("X-19")
@pytest.mark.parametrize("path", sorted(MEMBERS))
def test_one_missing_member(path):
    """MO-14: a member that is not there is `bundle.incomplete`."""
    rest = {name: data for name, data in MEMBERS.items() if name != path}
    assert code_of(from_members, rest) == "bundle.incomplete"
    assert code_of(from_zip, write_zip(rest)) == "bundle.incomplete"


@pytest.mark.clause("X-19")
@pytest.mark.parametrize(
    "path", ["x", "nodes/" + "0" * 64 + ".cbor", "artifacts/" + canon.hash_of(b"")[7:], "../x"]
)
def test_one_extra_member(path):
    """MO-14: a member that is not listed is `bundle.extra`, even if it hashes."""
    assert code_of(from_members, {**MEMBERS, path: b""}) == "bundle.extra"
    assert code_of(from_zip, write_zip({**MEMBERS, path: b""})) == "bundle.extra"


def listed(**fields):
    return {**MEMBERS, "bundle.cbor": canon.encode({**canon.decode(built().document), **fields})}


def remade(manifest):
    """Members over another manifest, hashed rightly."""
    data = canon.encode(manifest)
    named = {f"nodes/{canon.hash_of(data)[7:]}.cbor": data}
    return {**listed(manifest=canon.hash_of(data)), **named}


ARTIFACT_ROWS = canon.decode(built().document)["artifacts"]
NODES = canon.decode(built().document)["nodes"]


@pytest.mark.clause("X-19")
@pytest.mark.parametrize(
    ("members", "code"),
    [
        (listed(nodes=NODES[1:]), "bundle.hash_mismatch"),
        (listed(nodes=NODES[::-1]), "bundle.hash_mismatch"),
        (listed(nodes=[*NODES, NODES[-1]]), "bundle.hash_mismatch"),
        (listed(nodes=[3]), "bundle.hash_mismatch"),
        (listed(nodes=3), "bundle.hash_mismatch"),
        (listed(manifest=3), "bundle.hash_mismatch"),
        (listed(artifacts=[3]), "bundle.hash_mismatch"),
        (listed(artifacts=ARTIFACT_ROWS[1:]), "bundle.incomplete"),
        (listed(artifacts=[{**row, "size": 0} for row in ARTIFACT_ROWS]), "bundle.hash_mismatch"),
        (listed(artifacts=[{**row, "media": "x"} for row in ARTIFACT_ROWS]),
         "bundle.hash_mismatch"),
        (listed(more=1), "bundle.hash_mismatch"),
        ({**MEMBERS, "bundle.cbor": b"{}"}, "bundle.hash_mismatch"),
        ({**MEMBERS, "seals.cbor": b"{}"}, "bundle.hash_mismatch"),
        (remade({**built().manifest, "limits": {}}), "bundle.hash_mismatch"),
        (remade({**built().manifest, "colour": 1}), "bundle.hash_mismatch"),
        (remade([1]), "bundle.hash_mismatch"),
    ],
)  # fmt: skip
def test_a_bundle_document_that_lies(members, code):
    """MO-14: a document that is not that of its members, or not canonical, is refused."""
    assert code_of(from_members, members) == code


@pytest.mark.clause("X-19")
def test_a_bundle_of_another_root_is_refused():
    """MO-14: who knows the root they approved gets that bundle or none."""
    assert code_of(from_zip, built().to_zip(), PLANTED) == "bundle.hash_mismatch"


def test_a_node_that_is_not_canonical_is_refused():
    """MO-14: a node may hash rightly and still not be a document."""
    junk = b"\xff"
    hash_text = canon.hash_of(junk)
    members = listed(nodes=sorted([*NODES, hash_text]))
    members[f"nodes/{hash_text[7:]}.cbor"] = junk
    assert code_of(from_members, members) == "bundle.hash_mismatch"


# ---- the container --------------------------------------------------------------------------


@pytest.mark.clause("X-19")
def test_the_container_is_a_plain_zip():
    """MO-13: stored, sorted, dated 1980-01-01, no extra fields; any unzip reads it."""
    made = built()
    with zipfile.ZipFile(io.BytesIO(made.to_zip())) as opened:
        assert opened.testzip() is None
        rows = opened.infolist()
        assert [row.filename for row in rows] == sorted(made.members())
        assert {opened.read(row) for row in rows} == set(made.members().values())
    for row in rows:
        assert row.date_time == (1980, 1, 1, 0, 0, 0)
        assert (row.compress_type, row.extra, row.comment, row.external_attr) == (0, b"", b"", 0)


@pytest.mark.clause("X-19")
def test_a_container_of_another_writer_is_refused():
    """MO-14: only the one canonical container is taken; nothing is ever inflated."""
    members = built().members()
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        other = io.BytesIO()
        with zipfile.ZipFile(other, "w", method) as opened:
            for path in sorted(members):
                opened.writestr(path, members[path])
        assert code_of(read_zip, other.getvalue()) == "bundle.hash_mismatch"


def test_a_container_is_whole():
    """MO-14: cut short it is incomplete, with bytes after it there is something extra."""
    whole = write_zip({"a": b"12", "b": b""})
    for size in range(len(whole)):
        assert code_of(read_zip, whole[:size]) == "bundle.incomplete"
    assert code_of(read_zip, whole + b"\0") == "bundle.extra"
    assert code_of(read_zip, b"PK\x03\x05" + whole) == "bundle.hash_mismatch"
    entry = whole[: whole.index(b"PK\x01\x02")]
    assert code_of(read_zip, entry + whole) == "bundle.extra"
    assert read_zip(write_zip({})) == {}


def test_a_container_has_bounds():
    """X-03: more members than a plain zip can number are refused, not wrapped around."""
    many = dict.fromkeys(map(str, range(bundle_zip.ENTRIES_MAX + 1)), b"")
    for members, most in ((many, bundle_zip.BYTES_MAX), ({"a": b"123"}, 2)):
        with pytest.raises(TooLarge) as caught:
            write_zip(members, most)
        assert caught.value.code == "bundle.too_large"


def test_names_sort_by_bytes():
    """MO-13: the order is that of the encoded names, not of any locale."""
    data = write_zip({"é": b"", "z": b"", "Z": b"", "\U0001f600": b"", "\uffff": b""})
    assert list(read_zip(data)) == ["Z", "z", "é", "\uffff", "\U0001f600"]
    assert zlib.crc32(data) == zlib.crc32(write_zip(read_zip(data)))


BUILD = """
import json, os, sys, pathlib
from tallystick.model.bundle import build_bundle
from tallystick.model.bundle_python import python_bundle
os.umask(int(sys.argv[2], 8))
folder = pathlib.Path(sys.argv[1])
paths = sorted(folder.rglob("*"), reverse=sys.argv[3] == "reversed")
files = {p.relative_to(folder / "code").as_posix(): p.read_bytes()
         for p in paths if p.is_file() and "code" in p.relative_to(folder).parts}
root, artifacts = python_bundle(files)
documents = [json.loads(p.read_text().replace("ROOT", root)) for p in paths if p.suffix == ".json"]
out = folder / "out.tally.zip"
out.write_bytes(build_bundle(documents, artifacts).to_zip())
"""


@pytest.mark.clause("X-19", "X-02")
def test_two_builds_give_equal_bytes(tmp_path):
    """MO-13: other folder, time zone, umask, file order, hash seed, caches: equal zip bytes."""
    results = []
    for name, zone, umask, order, seed in (
        ("one", "UTC", "022", "sorted", "0"),
        ("two/deeper", "Asia/Kathmandu", "077", "reversed", "4711"),
    ):
        folder = tmp_path / name
        (folder / "code" / "pkg").mkdir(parents=True)
        for i, document in enumerate([DOCUMENTS[0], *DOCUMENTS[3:]]):
            (folder / f"{i}.json").write_text(json.dumps(document))
        module = json.dumps(DOCUMENTS[1]).replace(ROOT, "ROOT")
        (folder / "m.json").write_text(module)
        (folder / "code" / "orders.py").write_bytes(SOURCE)
        (folder / "code" / "pkg" / "__init__.py").write_bytes(b"")
        if seed != "0":
            (folder / "code" / "__pycache__").mkdir()
            (folder / "code" / "__pycache__" / "orders.pyc").write_bytes(b"1")
            (folder / "code" / ".hidden").write_bytes(b"1")
        subprocess.run(
            [sys.executable, "-c", BUILD, str(folder), umask, order],
            env={**os.environ, "TZ": zone, "PYTHONHASHSEED": seed},
            check=True,
        )
        results.append((folder / "out.tally.zip").read_bytes())
    assert results[0] == results[1]
    assert isinstance(from_zip(results[0]), Bundle)


# ---- structural authority -------------------------------------------------------------------


@pytest.mark.clause("X-24", "K-29")
def test_structural_authority_is_written_out():
    """X-24: one grant per type in use, every slot bound, one allow rule, all in the manifest."""
    made = structural_authority(read_sources(DOCUMENTS))
    assert made.manifest is not None
    assert made.manifest["authority"] == {
        "grants": [
            {"name": "effect", "cap": "sys/effect@1"},
            {"name": "http.out", "cap": "sys/http.out@1"},
            {"name": "timer", "cap": "sys/timer@1"},
        ],
        "policies": [POLICY],
    }
    assert made.manifest["module_bindings"] == {
        FLOW: {"slots": {"web": "http.out", "timer": "timer", "effect": "effect"}}
    }
    loaded = make_bundle(made.definitions, made.manifest, ARTIFACTS).catalogue()
    assert [policy.name for policy in loaded.policies] == [POLICY]
    assert loaded.policies[0].rules == ({"id": "structural", "decision": "allow"},)
    assert all(grant.params.get("hosts") is None for grant in loaded.grants.values())


@pytest.mark.clause("X-24")
def test_own_authority_is_left_alone():
    """X-24: who writes `authority`, even a narrow one, gets nothing added; nor do bad sources."""
    own = [*DOCUMENTS, {"$kind": "manifest", "authority": {"grants": [
        {"name": "g", "cap": "sys/timer@1"}]}}]  # fmt: skip
    sources = read_sources(own)
    assert structural_authority(sources) is sources
    bad = read_sources([{"$kind": "defplan", "name": "com.acme/p@1"}])
    assert structural_authority(bad) is bad


@pytest.mark.clause("X-24")
def test_structural_authority_prefers_own_capabilities_and_bindings():
    """X-24: a bundle's own defcap is granted, given bindings stay, unknown types get nothing."""
    cap = {"$kind": "defcap", "name": "com.acme/tick@1", "cap_type": "timer"}
    idle = {**DOCUMENTS[3], "name": "com.acme/idle@1", "effects_emitted": [], "cap_slots": {}}
    strange = {**DOCUMENTS[3], "name": "com.acme/odd@1", "effects_emitted": ["com.acme/no@1"],
               "cap_slots": {"x": "fax"}}  # fmt: skip
    bound = {"$kind": "manifest", "module_bindings": {FLOW: {"slots": {"web": "mine"}}}}
    made = structural_authority(read_sources([*DOCUMENTS, cap, idle, strange, bound])).manifest
    assert {"name": "timer", "cap": "com.acme/tick@1"} in made["authority"]["grants"]  # type: ignore[index]
    assert made["module_bindings"][FLOW]["slots"]["web"] == "mine"  # type: ignore[index]
    assert list(made["module_bindings"]) == [FLOW]  # type: ignore[index]


def test_structural_authority_keeps_warnings():
    """X-24: what the sources were warned of is not forgotten."""
    older = [*DOCUMENTS[:-1], {"$kind": "manifest", "air_version": "1"}]
    made = structural_authority(read_sources(older))
    assert [finding.code for finding in made.findings] == ["legacy.note"]
