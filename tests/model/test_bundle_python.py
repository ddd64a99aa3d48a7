"""The `python_bundle`: sources as one hashed list, read as strictly as it is written."""

from __future__ import annotations

import pytest

from tallystick.errors import BadDefinition
from tallystick.model.bundle_python import python_bundle, read_python_bundle, requirement_faults
from tallystick.values import canon
from tests.model.test_bundle import code_of
from tests.model.test_lower import H as PLANTED

# ---- python_bundle --------------------------------------------------------------------------


@pytest.mark.clause("K-03", "X-19")
def test_a_python_bundle_lists_sources_in_byte_order():
    """02 section 3: caches, byte code and dot files are left out, order is that of bytes."""
    sources = {"b.py": b"2", "a/é.py": b"1", "a/Z.py": b"3", "B.py": b""}
    noise = {"a/__pycache__/Z.cpython-311.pyc": b"", "c.pyc": b"", ".git/config": b"", "a/.x": b""}
    root, artifacts = python_bundle({**sources, **noise})
    made = read_python_bundle(artifacts[root])
    assert [path for path, _ in made["files"]] == ["B.py", "a/Z.py", "a/é.py", "b.py"]
    assert made["files"][0][1] == canon.hash_of(b"")
    assert (made["lane"], made["requires"]) == (1, [])
    assert len(artifacts) == 5
    assert python_bundle(sources) == (root, artifacts)
    assert python_bundle(sources, lane=2)[0] != root


@pytest.mark.parametrize("path", ["/etc/x.py", "../x.py", "a/../x.py", "a//x.py", "a\\x.py", ""])
def test_a_path_that_leaves_is_refused(path):
    """X-19: unpacking a bundle can write nowhere else."""
    assert code_of(python_bundle, {path: b""}) == "def.bad_value"


@pytest.mark.clause("X-19")
def test_vendored_code_is_pinned():
    """02 section 3: `requires` hashes what was copied in; another content is named."""
    sources = {"m.py": b"", "vendor/left-1.0/left.py": b"x", "vendor/left-1.0/left-1.0.txt": b""}
    root, artifacts = python_bundle(sources, vendored=[("left", "1.0")])
    made = read_python_bundle(artifacts[root])
    assert [row[:2] for row in made["requires"]] == [["left", "1.0"]]
    assert requirement_faults(made) == []
    other = read_python_bundle(
        canon.encode({**made, "files": [[path, canon.hash_of(b"y")] for path, _ in made["files"]]})
    )
    assert requirement_faults(other) == ["left 1.0 is not the one that was vendored"]
    gone = {**made, "files": made["files"][:1]}
    assert requirement_faults(gone) == ["left 1.0 is required and not in the bundle"]
    with pytest.raises(BadDefinition) as caught:
        python_bundle({"m.py": b""}, vendored=[("left", "1.0")])
    assert caught.value.code == "module.requirement_mismatch"


GOOD = {"$kind": "python_bundle", "lane": 1, "files": [["a.py", PLANTED]], "requires": []}


@pytest.mark.parametrize(
    "document",
    [
        [],
        {**GOOD, "more": 1},
        {**GOOD, "$kind": "bundle"},
        {**GOOD, "lane": 0},
        {**GOOD, "lane": "1"},
        {**GOOD, "files": {}},
        {**GOOD, "files": [["a.py"]]},
        {**GOOD, "files": [["a.py", "x"]]},
        {**GOOD, "files": [[1, PLANTED]]},
        {**GOOD, "files": ["ab"]},
        {**GOOD, "files": [["b.py", PLANTED], ["a.py", PLANTED]]},
        {**GOOD, "files": [["a.py", PLANTED], ["a.py", PLANTED]]},
        {**GOOD, "files": [["../a.py", PLANTED]]},
        {**GOOD, "files": [["a.pyc", PLANTED]]},
        {**GOOD, "requires": [["left", "1.0"]]},
    ],
)
def test_a_list_that_no_build_wrote_is_refused(document):
    """X-19: a python_bundle is read as strictly as it is written."""
    read_python_bundle(canon.encode(GOOD))
    assert code_of(read_python_bundle, canon.encode(document)) == "bundle.hash_mismatch"


def test_a_list_that_is_no_document_is_refused():
    """X-19: bytes that are not canonical are no python_bundle."""
    assert code_of(read_python_bundle, b"{}") == "bundle.hash_mismatch"
