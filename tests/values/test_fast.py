"""Compiled rooms: the same sources, the same bytes, the same refusals.

The codec is built into a copy of the package, so that neither the checkout nor an installed build
matters; the way a build is found is the same for all rooms, whose build takes minutes.
Without a C compiler or mypyc these tests are skipped, and say so.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from tallystick.errors import NotCanonical, SchemaMismatch
from tests.values import documents

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "tallystick"
CODECS = "from tallystick.values import canon; import tallystick.values.canon as again; "
NAME = "tallystick.values.canon"
WHICH = CODECS + (
    "import tallystick; assert canon is again is tallystick.values.canon; "
    "print('pure' if canon.__file__.endswith('.py') else 'compiled', canon.hash({}))"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package and its compiled codec, and no other build."""
    folder = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("_fast", "__pycache__")
    shutil.copytree(PACKAGE, folder / "tallystick", ignore=ignored)
    command = [sys.executable, str(ROOT / "scripts" / "build_fast"), "--codec-only"]
    command += ["--into", str(folder / "tallystick" / "_fast"), "--cache", str(folder / "kept")]
    for before in (False, True):
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode == 3:
            pytest.skip(f"COMPILED CODEC NOT TESTED: {built.stderr.strip()}")
        assert built.returncode == 0, built.stdout + built.stderr
        # The same sources again: nothing is compiled, and the build is as good.
        found, _, total = built.stderr.partition("build_fast: ")[2].split()[:3]
        assert total != "0"
        assert found == (total if before else "0"), built.stderr
    return folder


def run(site: Path, *arguments: str, **surroundings: str) -> subprocess.CompletedProcess[str]:
    """Run Python on that copy of the package."""
    environment = {name: value for name, value in os.environ.items() if name != "TALLY_PURE"}
    environment |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **surroundings}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=site, capture_output=True, text=True, check=False
    )


def which(site: Path, **surroundings: str) -> str:
    """Which codec a new process uses: the same one under each of its names."""
    ran = run(site, "-c", WHICH, **surroundings)
    assert ran.returncode == 0, ran.stderr
    word, digest = ran.stdout.split()
    assert digest.startswith("sha256:75bd49cb")
    return word


def module_from(path: Path, name: str) -> ModuleType:
    """A module from a file, under a name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def codecs(site: Path) -> Iterator[tuple[ModuleType, ModuleType]]:
    """The pure and the compiled codec side by side, both from the same source."""
    before = dict(sys.modules)
    fast = site / "tallystick" / "_fast"
    pure = module_from(site / "tallystick" / "values" / "canon.py", "canon_pure")
    # The compiled module asks for its other half by name.
    half = next(fast.glob("codec_*/*__mypyc.*"))
    module_from(half, half.name.split(".")[0])
    compiled = module_from(next(fast.glob("codec_*/tallystick/values/canon.*")), NAME)
    assert isinstance(compiled.encode, type(len)), "the codec under test is not compiled"
    if NAME in before:
        sys.modules[NAME] = before[NAME]  # what the process had, it keeps
    yield pure, compiled
    for name in [name for name in sys.modules if name not in before]:
        if name == "canon_pure" or name.endswith("__mypyc"):
            del sys.modules[name]


def said(call: Callable[[Any], Any], argument: Any) -> tuple[Any, ...]:
    """What a call gives: its result, or all that its refusal says."""
    try:
        return "gave", call(argument)
    except (NotCanonical, SchemaMismatch) as refusal:
        return type(refusal).__name__, refusal.code, refusal.message, refusal.where


@pytest.mark.clause("K-12", "D3")
def test_vectors_on_both_paths(codecs: tuple[ModuleType, ModuleType]) -> None:
    """VA-01, VA-02: golden vectors and refusals are the same, pure and compiled."""
    for codec in codecs:
        for row in documents.load("accepted.json"):
            value, data = documents.value_of(row["value"]), bytes.fromhex(row["hex"])
            assert codec.encode(value) == data
            assert codec.encode(codec.decode(data)) == data
            assert codec.hash(value) == "sha256:" + row["sha256"]
        for row in documents.load("identities.json"):
            assert codec.digest(documents.value_of(row["value"])).hex() == row["sha256"]
        for data, code, offset in documents.refused_documents():
            with pytest.raises(NotCanonical) as caught:
                codec.decode(data)
            assert (caught.value.code, caught.value.offset) == (code, offset), data[:80].hex()


@pytest.mark.clause("K-12", "D3")
def test_random_values_on_both_paths(codecs: tuple[ModuleType, ModuleType]) -> None:
    """VA-01, VA-03: 30,000 random values, and mutations of them, get the same answers."""
    pure, compiled = codecs
    rng = Random(4242)
    for _ in range(30_000):
        value = documents.value(rng, depth=2, keys="mixed")
        data = pure.encode(value)
        assert compiled.encode(value) == data
        assert compiled.decode(data) == pure.decode(data) == value
        at = rng.randrange(len(data))
        mutated = data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :]
        assert said(compiled.decode, mutated) == said(pure.decode, mutated)


@pytest.mark.clause("K-12")
def test_caps_and_refusals_on_both_paths(codecs: tuple[ModuleType, ModuleType]) -> None:
    """VA-09: depth, size, range and type are refused with the same words, pure and compiled."""
    deep: Any = []
    for _ in range(1000):
        deep = [deep]
    odd = [2**64, -(2**63) - 1, 2**80, -(2**80), math.nan, math.inf, "\ud800", {1, 2}, 1j, deep]
    odd += [{b"a": 1}, {None: 1}, {True: 1}, {2**64: 1}, bytearray(1), bytes(canon_room() + 1)]
    odd += [-0.0, 2.0**53, 2.0**53 + 2, 1e300, 5e-324, bytes(canon_room()), (1, (2,)), {"": ""}]
    for value in odd:
        pure, compiled = (said(codec.encode, value) for codec in codecs)
        assert pure == compiled, repr(value)[:80]
        pure, compiled = (said(codec.encode_item, [value]) for codec in codecs)
        assert pure == compiled, repr(value)[:80]


def canon_room() -> int:
    """How many bytes fit in a byte string that fills a document."""
    return 16 * 1024 * 1024 - 3 - 5


@pytest.mark.clause("X-02")
def test_surroundings_on_both_paths(site: Path) -> None:
    """VA-20: the digest over all vectors is the same, pure and compiled, in any surroundings."""
    program = [str(Path(__file__).with_name("print_digest.py")), str(documents.GOLDEN)]
    pure = run(site, *program, TALLY_PURE="1").stdout.split()
    assert pure[1:] == ["True"]
    for seed, locale, zone in (("0", "C", "UTC"), ("7", "C.UTF-8", "Asia/Kolkata")):
        ran = run(site, *program, PYTHONHASHSEED=seed, LC_ALL=locale, TZ=zone)
        assert ran.stdout.split() == [pure[0], "False"], ran.stderr


def test_compiled_budget(site: Path) -> None:
    """VA-22: the compiled codec stays within its multiples of sha256; the best of three counts."""
    ran = None
    for _ in range(3):
        ran = run(site, str(ROOT / "bench" / "codec.py"))
        assert '"path": "compiled"' in ran.stdout, ran.stderr
        if ran.returncode == 0:
            return
    assert ran is not None
    raise AssertionError(ran.stdout + ran.stderr)


@pytest.mark.clause("D3")
def test_compiled_is_preferred(site: Path) -> None:
    """VA-01: the compiled codec is used when it is there, TALLY_PURE=1 forces the pure one."""
    assert which(site) == "compiled"
    assert which(site, TALLY_PURE="0") == "compiled"
    assert which(site, TALLY_PURE="1") == "pure"
    said = run(site, "-m", "tallystick", "--version", "--json")
    assert json.loads(said.stdout)["path"] == "codec", said.stderr


@pytest.mark.clause("D3")
@pytest.mark.parametrize(
    "damage", ["absent", "stale", "no note", "bad note", "odd note", "no library", "bad library"]
)
def test_unfit_build_is_ignored(site: Path, tmp_path: Path, damage: str) -> None:
    """VA-01: an absent, stale or damaged build leaves the pure path in use."""
    shutil.copytree(site / "tallystick", tmp_path / "tallystick")
    fast = tmp_path / "tallystick" / "_fast"
    note = next(fast.glob("codec_*/built.json"))
    assert which(tmp_path) == "compiled"
    if damage == "absent":
        shutil.rmtree(fast)
    elif damage == "stale":
        change(tmp_path, "values/canon.py")
    elif damage == "no note":
        note.unlink()
    elif damage == "bad note":
        note.write_bytes(b"\xff\xfe")
    elif damage == "odd note":
        note.write_text("[7]", encoding="utf-8")
    for library in fast.rglob("*.so"):
        if damage == "no library":
            library.unlink()
        elif damage == "bad library":
            library.write_bytes(b"no library")
    assert which(tmp_path) == "pure"


def change(site: Path, file: str) -> None:
    """Change a source without changing what it does."""
    source = site / "tallystick" / file
    source.write_text(source.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")


def library_in_use(site: Path) -> str:
    """The build that a new process has its codec from."""
    program = "from tallystick.values import canon; print(canon.__file__)"
    ran = run(site, "-c", program)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split("_fast/")[-1].split("_")[0]


@pytest.mark.clause("D3")
def test_larger_build_comes_first_until_a_room_changes(site: Path, tmp_path: Path) -> None:
    """VA-01: a change in any room retires the build of all rooms; the codec's own stays."""
    shutil.copytree(site / "tallystick", tmp_path / "tallystick")
    package = module_from(tmp_path / "tallystick" / "__init__.py", "tallystick_copy")
    del sys.modules["tallystick_copy"]
    fast = tmp_path / "tallystick" / "_fast"
    # A build is a folder of libraries and their note, whatever is in it.
    shutil.copytree(next(fast.glob("codec_*")), fast / package._build_name(fast.parent, "rooms"))
    assert library_in_use(tmp_path) == "rooms"
    change(tmp_path, "kernel/tick.py")
    assert library_in_use(tmp_path) == "codec"
    change(tmp_path, "errors.py")
    assert which(tmp_path) == "pure"


ROOTS = "import tests.purity_program as p; from tallystick.kernel import tick; "
ROOTS += "print(tick.__file__.endswith('.py'), *p.roots(), sep='\\n')"


@pytest.mark.clause("D3", "X-02")
def test_rooms_give_the_same_roots() -> None:
    """VA-01: a run through all rooms gives the same roots, pure and compiled."""
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    pure = run(ROOT, "-c", ROOTS, TALLY_PURE="1", **environment).stdout.splitlines()
    assert len(pure) > 20
    ran = run(ROOT, "-c", ROOTS, **environment)
    compiled = ran.stdout.splitlines()
    if compiled[:1] == ["True"]:
        pytest.skip("COMPILED ROOMS NOT TESTED: no build of these sources; run make fast")
    assert compiled == ["False", *pure[1:]], ran.stderr
