"""Print what code of the lane makes of sets, by every way round the ban on iterating (AU-12).

Equal under every hash seed.
"""

from __future__ import annotations

import json

from tallystick.modules.lane import Compiled, Space
from tallystick.workflow.codec import codec_of

WORDS = [f"word{n}" for n in range(12)]
# Ways to let an order out that the text of the program does not show: a set comes by an argument.
SOURCE = """
import operator
from collections import Counter, OrderedDict, deque
from functools import reduce
from itertools import accumulate, chain, permutations, product
from heapq import nsmallest
from tallystick import Record
class Held(Record): marks: frozenset[str]
def same(x): return x
def ways(words, given):
    held = same(set(words))
    more = same({*words, "w"})
    made = same({word + "!" for word in words})
    table = {word: n for n, word in enumerate(words)}
    keys = same(table.keys() & more)
    view, pairs = same(table.keys()), same(table.items())
    shrunk = same(table.keys())
    shrunk -= {"none"}
    fetch = table.keys
    boxed = {"view": view}
    boxed["view"] |= more
    views = (
        view & more,
        more | view,
        view ^ {"none"},
        shrunk,
        fetch() - {"none"},
        dict.keys(table) & view,
        operator.and_(view, more),
        reduce(operator.or_, [view, view]),
        OrderedDict(table).keys() & view,
        boxed["view"],
        {key for key, _ in sorted(pairs - {("none", 0)})},
    )
    out = []
    sets = (held, more, made, keys, held | more, frozenset(more) - {"w"}, given, given | more)
    for each in (*sets, *views):
        out.append(f"{each}")
        out.append(repr(each))
        out.append("{}".format(each))
        out.append("%s" % (each,))
        out.append(str([each]))
        out.append(f"{Held(marks=frozenset(each))}")
        out.append(str(deque(each)))
        out.append(str(OrderedDict.fromkeys(sorted(each))))
        out.append(str(dict(zip(sorted(each), [1, 2]))))
        out.append(reduce(lambda a, b: a + b, each))
        out.append(str([*chain(each)]))
        out.append(str([*accumulate(each)]))
        out.append(str(nsmallest(2, each, key=lambda word: 0)))
        out.append(str([*product(each, [1])][:2]))
        out.append(str([*permutations(each, 1)][:2]))
        out.append(str(Counter(each).most_common(2)))
        out.append(str(sorted(each, key=len)))
        out.append(str(max(each, key=len)))
        listed = []
        listed += same(each)
        out.append(str(listed))
    return out
"""


def printed() -> list[str]:
    """The texts that the program makes of sets of its own and of one that a record brought."""
    space = Space(Compiled({"p.py": SOURCE.encode()}, 1))
    take = codec_of(frozenset[str]).take
    assert take is not None, "a set is decoded"
    space.start(1_000_000)
    found: list[str] = space.find("p:ways")(WORDS, take(WORDS))
    return found


if __name__ == "__main__":
    print(json.dumps(printed()))
