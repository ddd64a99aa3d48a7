"""The corners of the Python lane: files beside each other, rarer builtins, odd code (AU-12)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import BadDefinition, NotCanonical
from tallystick.model.abi import Halted
from tallystick.model.bundle_python import LANE
from tallystick.model.records import Ticked, WorkflowFaulted
from tallystick.modules.lane import Compiled, Space
from tallystick.modules.lane_rules import rules_of
from tallystick.modules.pure import PureFunction
from tallystick.modules.reducers import halted
from tallystick.values import canon
from tests.modules.test_lane import BODY, HELLO, outcome
from tests.workflow.names import loaded, module_of


def space(**more: Any) -> Space:
    """A space of the files, given as `path=text` with `__` for a slash."""
    files = {"/".join(name.split("__")) + ".py": text.encode() for name, text in more.items()}
    return Space(Compiled(files, LANE))


def test_files_of_an_artifact_import_each_other() -> None:
    """02 section 3: beside, above, as a package and inside one, each loaded once.

    Other files are no code, and what is not there is refused at its line.
    """
    files = {
        "notes.txt": b"not Python",
        "app.py": b"from .shop import prices\nfrom . import words, absent\nTOTAL = prices.TWO",
        "words.py": b"HELLO = 'hello'",
        "shop/__init__.py": b"from .prices import TWO\nNAME = 'shop'",
        "shop/prices.py": b"from ..words import HELLO\nTWO = 2",
    }
    with pytest.raises(BadDefinition) as caught:
        Space(Compiled(files, LANE))
    assert (caught.value.code, caught.value.where["line"]) == ("lane.load", 2)
    files["app.py"] = files["app.py"].replace(b", absent", b"")
    made = Space(Compiled(files, LANE)).modules
    assert made["app"].TOTAL == made["shop"].TWO == 2
    assert made["shop.prices"].HELLO == "hello"
    assert "notes" not in made


def test_a_refusal_names_the_file_that_it_stands_in() -> None:
    """D13: a definition that is refused in a file beside is told with that file and line."""
    with pytest.raises(BadDefinition) as caught:
        space(app="from .shapes import app", shapes=HELLO.replace('"demo"', '"No Name"'))
    assert caught.value.code == "def.bad_name"
    assert (caught.value.where["file"], caught.value.where["line"]) == ("shapes.py", 3)


VENDORED = {
    "vendor/money-1.0/money/__init__.py": b"from money.units import CENT",
    "vendor/money-1.0/money/units.py": b"CENT = 1",
}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("import money.units\nFOUND = money.units.CENT", 1),
        ("from money import units, CENT\nFOUND = units.CENT + CENT", 2),
        ("import collections.abc\nFOUND = collections.abc.Sized.__name__", None),
        ("import collections.abc\nFOUND = isinstance((), collections.abc.Sized)", True),
    ],
)
def test_packages_are_imported_as_python_has_them(line: str, value: Any) -> None:
    """AU-18: vendored packages and dotted modules of the lane, whole or by name."""
    files = {**VENDORED, "app.py": line.encode()}
    if value is None:
        with pytest.raises(BadDefinition) as caught:
            Compiled(files, LANE)
        assert caught.value.where["lint"] == "TL105"
        return
    assert value == Space(Compiled(files, LANE)).modules["app"].FOUND


@pytest.mark.parametrize("path", ["money.py", "vendor/other-1.0/decimal/__init__.py"])
def test_a_vendored_package_hides_nothing(path: str) -> None:
    """AU-18: one that is called like a file or like a module of the lane is refused."""
    with pytest.raises(BadDefinition) as caught:
        Compiled({**VENDORED, path: b"CENT = 2"}, LANE)
    assert caught.value.code == "lane.vendored"
    assert caught.value.where["name"] in ("money", "decimal")


def test_a_lane_of_a_newer_release_is_refused() -> None:
    """05 section 3: a bundle says which lane it was written for; one that is not here says so."""
    with pytest.raises(BadDefinition) as caught:
        rules_of(2)
    assert caught.value.code == "lane.unknown"
    assert "[1]" in caught.value.hint


ASYNC = "async def f(given):\n    {}"


@pytest.mark.parametrize("body", ["async for x in given: pass", "return [x async for x in given]"])
def test_async_loops_are_refused(body: str) -> None:
    """AU-12: nothing in a flow can be iterated over in time; both forms are named."""
    with pytest.raises(BadDefinition) as caught:
        module_of(f"{HELLO}\n{ASYNC.format(body)}\n")
    assert caught.value.where["lint"] == "TL401"


FROZEN = """
from __future__ import annotations
from typing import NewType, TypeVar, Any
Ident = NewType("Ident", str)
Kind = TypeVar("Kind")
Whatever = Any
DEEP = ((((((((((((1,),),),),),),),),),),),)
def later():
    def inner():
        return never
    if inner is None:
        never = 1
    return inner
HELD = later()
"""


def test_more_things_that_cannot_remember() -> None:
    """AU-12 control: types, very deep tuples and a closure over nothing are no state."""
    made = module_of(FROZEN + HELLO)
    assert made.DEEP
    with pytest.raises(NameError):
        made.HELD()


RUNS = [
    ("n = 3\n    n *= 4\n    found = n", "12"),
    ("held = [1, 2]\n    held[0] *= 5\n    found = held", "[5, 2]"),
    ("n = 2\n    n **= 3\n    n <<= 1\n    found = n", "16"),
    ("found = ','.join(*[['a', 'b']])", "a,b"),
    ("first, *rest = [1, 2, 3]\n    found = rest", "[2, 3]"),
    ("held = [1, 2]\n    found = held.pop()", "2"),
    ("found = str() + str(5)", "5"),
    ("found = bytes(2) + bytes([1])", "b'\\x00\\x00\\x01'"),
    ("found = max(3, 9, 4) + min([5, 6])", "14"),
    ("found = sorted(set(['bb', 'a', 'cc']), key=len)", "['a', 'bb', 'cc']"),
    ("found = list(filter(None, [0, 1])) + list(reversed([1, 2]))", "[1, 2, 1]"),
    ("found = next(iter([7])) + pow(2, 5) + pow(2, 5, 7)", "43"),
    ("found = all([1]) and any([0, 1]) and hasattr(event, 'key')", "True"),
    ("found = [a + b for a, b in zip([1], [2])] + [n for n, _ in enumerate('a', 5)]", "[3, 5]"),
    ("found = str(type[int]) + str(sum([1, 2], 3))", "type[int]6"),
    ("found = tuple([1, 2]) + tuple()", "(1, 2)"),
]


@pytest.mark.parametrize(("body", "text"), RUNS)
def test_rarer_code_runs_as_in_python(body: str, text: str) -> None:
    """AU-12 control: guards change nothing of what they let through."""
    world, faults = outcome(body)
    assert faults == []
    run = next(iter(world.app.workflows.values())).code
    assert world.cell(run, "a").state.text == text


STOPS = [
    "n = 1 << 4000\n    for _ in range(9): n = n * n",
    "found = bytes(2000000)",
    "found = 'x' * 1000000 + 'y' * 100\n    found = str(found)",
    "found = len(list(range(1000000)))",
    "from itertools import chain\n    found = len(list(chain(range(1000000), [1])))",
]


@pytest.mark.clause("X-03")
@pytest.mark.parametrize("body", STOPS)
def test_what_grows_too_large_ends_the_fuel(body: str) -> None:
    """AU-13: products, bytes and texts have a limit, and large ones are charged by their size."""
    limited = BODY.replace('key="key"', 'key="key", limits={"fuel": 10_000}')
    world, app = loaded(limited.replace("{body}", body))
    world.send(app.Go(key="a"))
    assert [fault.code for fault in world.records(WorkflowFaulted)] == ["fuel"]
    world.assert_replays()


KINDS = """
from typing import Any
from tallystick import Bundle, Ctx, Record
app = Bundle("t")
class Go(Record): key: str
class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")
@app.workflow(key="key", lifecycle="entity")
class count:
    @staticmethod
    def init(ctx: Ctx, event: Go) -> int:
        if event.key == "mute":
            raise Mute()
        return 5
    @staticmethod
    def tick(state: int | None, event: Go, ctx: Ctx) -> int:
        if event.key == "odd":
            ctx.complete(app)
        return (state or 0) + 1
"""


def test_a_state_may_be_a_plain_number() -> None:
    """K-03: a state without fields goes as it is; what cannot be written is a fault."""
    world, app = loaded(KINDS)
    world.send(app.Go(key="a"))
    assert world.cell(app.count, "a").state == 6
    world.send(app.Go(key="odd"))
    (fault,) = world.records(WorkflowFaulted)
    assert fault.code == "bad_output"
    world.assert_replays()


@pytest.mark.clause("X-11")
def test_an_init_that_raises_is_a_fault() -> None:
    """X-11: the first state is module code too; an exception that has no words is named."""
    world, app = loaded(KINDS)
    world.send(app.Go(key="mute"))
    (fault,) = world.records(WorkflowFaulted)
    assert fault.code == "exception"
    assert fault.message.startswith("Mute (at app.py:")
    assert world.records(Ticked) == []
    world.assert_replays()


def test_the_end_of_the_process_is_no_fault() -> None:
    """05 section 3: an interrupt of the process goes through the fence; other errors do not."""
    anything: Any = None
    with pytest.raises(KeyboardInterrupt):
        halted(KeyboardInterrupt(), space(app=HELLO), anything, "python/1")
    odd = NotCanonical("no", code="cbor.prefix", offset=0)
    found = halted(odd, space(app=HELLO), anything, "python/1")
    assert found.code == "bad_output"


PURE = """
from tallystick import Bundle, Record
app = Bundle("t")
class One(Record): n: int
@app.pure
def double(given: One) -> One:
    while given.n == 9:
        pass
    return One(n=given.n * 2) if given.n else app
@app.pure
def other(given: One) -> One:
    return given
def plain(given: One) -> One:
    return given
"""


def test_a_pure_function_ends_with_its_document_or_a_fault() -> None:
    """K-02: fuel that is used up and an answer that is no value are faults with their code."""
    catalogue: Any = type("Limited", (), {"limits": type("Few", (), {"fuel": 1000})})
    made = space(app=PURE)
    double = PureFunction(made, "app:double", "python/1")
    ends = [double(catalogue, canon.encode({"n": n})) for n in (4, 9, 0)]
    assert ends[0] == canon.encode({"n": 8})
    assert [end.code for end in ends[1:] if isinstance(end, Halted)] == ["fuel", "bad_output"]
    with pytest.raises(BadDefinition) as caught:
        PureFunction(made, "app:plain", "python/1")
    assert caught.value.code == "module.no_entrypoint"
