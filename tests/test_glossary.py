"""One word, one thing: the glossary is true of the code (ST-09)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from tallystick.cli.table import NOUNS as NOUNS_OF_TALLY

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tallystick"
GLOSSARY = (ROOT / "GLOSSARY.md").read_text("utf-8")
# The words of the design that every document uses; a new one is decided there first.
NOUNS = """
world, manifest, bundle, workflow, schema, module, effect, capability, policy, upcast, cell,
mailbox, tick, intent, receipt, progress, record, frame, seal, state root, root, snapshot, fork,
proposal, shadow, apply, playbook, step, arc, token, gate, execution, reaction, trigger, decision,
run, action, stamp, executor, node
"""


class Word(NamedTuple):
    """One row of the glossary."""

    word: str
    means: str
    file: str
    name: str
    others: tuple[str, ...]


def words(text: str = GLOSSARY) -> list[Word]:
    """The rows of the table."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 5 and cells[0] != "word":
            word, means, file, name, others = cells
            kept = tuple(other.strip() for other in others.split(",") if other.strip())
            found.append(Word(word, means, file, name, kept))
    return found


def planned() -> set[str]:
    """The words of the second section."""
    text = GLOSSARY.split("## Words kept for what is not built yet")[1]
    return {word.strip(" .\n") for word in text.split(",")}


def defined(path: Path) -> set[str]:
    """What a file defines at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign):
            found.add(ast.unparse(node.target))
    return found


def misnamed(class_name: str, rows: list[Word]) -> list[str]:
    """The words that a class name should have said otherwise."""
    parts = {part.lower() for part in re.findall(r"[A-Z]+[a-z0-9]*", class_name)}
    return [f"{class_name}: say {row.word}" for row in rows if parts & set(row.others)]


def test_every_noun_is_told_once() -> None:
    """ST-09: each noun of the design is in the glossary, in use or kept for later, not both."""
    told = [row.word for row in words()]
    assert len(told) == len(set(told)) > 30
    nouns = {noun.strip() for noun in NOUNS.replace("\n", " ").split(",")}
    assert sorted(nouns - set(told) - planned()) == []
    assert sorted(set(told) & planned()) == []


def test_every_word_is_where_it_says() -> None:
    """ST-09: the file is there and defines the name; a word without meaning is no word."""
    for row in words():
        assert row.means
        path = PACKAGE / row.file
        assert path.exists(), row.word
        assert not row.name or row.name in defined(path), f"{row.word}: {row.name} in {row.file}"


def test_every_noun_of_the_command_line_is_told() -> None:
    """ST-09: what follows `tally` is a word of the glossary, or stands for one here."""
    stands_for = {"gov": "proposal", "reflection": "reaction", "token": "access token"}
    told = {row.word for row in words()}
    assert sorted(noun for noun in NOUNS_OF_TALLY if stands_for.get(noun, noun) not in told) == []


def test_a_word_kept_for_later_is_not_a_room_yet() -> None:
    """ST-09: when the room of a planned word appears, the word has to move up."""
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(word for word in planned() if f"{word}s" in rooms) == []


def test_no_class_has_a_second_word_for_a_thing() -> None:
    """ST-09: no class of the product is named by a word that the glossary replaces."""
    classes = [
        node.name
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert len(classes) > 100
    assert [finding for name in classes for finding in misnamed(name, words())] == []


def test_second_words_are_found() -> None:
    """ST-09 control: an instance is a cell, an activity is an effect; a cell is a cell."""
    assert misnamed("WorkflowInstance", words()) == ["WorkflowInstance: say cell"]
    assert misnamed("ActivityRunner", words()) == ["ActivityRunner: say effect"]
    assert misnamed("CellId", words()) == []
