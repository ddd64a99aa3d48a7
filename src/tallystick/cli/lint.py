"""`tally lint`: what a reader of the code can know before it runs; no node is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from tallystick.cli import sources
from tallystick.cli.documents import document_at
from tallystick.cli.verb import BAD, NO, OK, Done, Options, Verb, arg, flag
from tallystick.errors import Rejected

FINDING = {"code": str, "path": str, "line": int, "message": str, "hint": str, "level": str}
INFERRED = {"workflow": str, "effects": [str], "reads": [str], "children": [str], "caps": [str]}


# tidy: findings, fingerprint and inference of each path, one after the other.
def run(_call: Any, options: Options) -> Done:
    """Every finding in the Python sources at the paths; 2 on errors, 1 on warnings if strict."""
    from tallystick.modules import fingerprint as prints  # noqa: PLC0415  # loads the whole kit
    from tallystick.modules.lint import infer, lint, unaccepted, unread  # noqa: PLC0415  # as above

    findings: list[dict[str, Any]] = []
    inferred: list[dict[str, Any]] = []
    errors = 0
    for place in [_there(given) for given in options["paths"]]:
        if options["fix"]:
            _fix(place)
        files = sources.python_files(place)
        found = lint(files)
        note = (place.parent if place.is_file() else place) / prints.FILE
        if options["accept"] and not any(finding.error for finding in found):
            accept(place)
        elif options["check"] and not any(finding.error for finding in found):
            known = _fingerprint(note)
            found += [*unaccepted(files, known), *unread(files, known)]
        errors += sum(finding.error for finding in found)
        findings += [{**f._asdict(), "level": "error" if f.error else "warning"} for f in found]
        if not any(finding.error for finding in found):
            inferred += [
                {
                    "workflow": each.workflow,
                    "effects": list(each.effects),
                    "reads": list(each.reads),
                    "children": list(each.children),
                    "caps": list(each.caps),
                }
                for each in infer(files)
            ]
    code = BAD if errors else NO if findings and options["strict"] else OK
    value = {"ok": not errors, "errors": errors, "findings": findings, "inferred": inferred}
    return Done(value, code)


def _there(given: str) -> Path:
    """The path that was given; a wrong one must not pass for code without findings."""
    place = Path(given)
    if not place.exists():
        raise Rejected(
            f"{given} is not there",
            code="request.bad_file",
            where={"path": given},
            hint="give a .py file, or a folder of them",
        )
    return place


def _fingerprint(note: Path) -> dict[str, Any]:
    """What was accepted, nothing when nothing was; refuses a file that holds something else."""
    if not note.exists():
        return {}
    known = document_at(str(note))
    if not isinstance(known, dict):
        raise Rejected(
            f"{note} is no fingerprint",
            code="request.bad_file",
            where={"path": str(note)},
            hint="look at the code, then write it anew: `tally lint --accept`",
        )
    return known


def accept(place: Path) -> None:
    """Write the fingerprint of the sources at a path beside them."""
    from tallystick.modules import fingerprint as prints  # noqa: PLC0415  # loads the whole kit

    note = (place.parent if place.is_file() else place) / prints.FILE
    made = prints.fingerprint(sources.python_files(place))
    note.write_text(json.dumps(made, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _fix(place: Path) -> None:
    """Write back what can be mended without a question."""
    from tallystick.modules.lint_fix import fixed  # noqa: PLC0415  # loads the whole kit

    for name, data in fixed(sources.python_files(place)).items():
        (place if place.is_file() else place / name).write_bytes(data)


def report(console: Console, value: Any) -> None:
    """One line for each finding, and what each workflow asks for."""
    for each in value["findings"]:
        line = f"{each['path']}:{each['line']}: {each['code']} {each['message']}"
        # Whole lines: editors and grep read them.
        console.print(escape(f"{line} ({each['hint']})"), soft_wrap=True)
    for each in value["inferred"]:
        asks = ", ".join([*each["effects"], *each["reads"], *each["children"]]) or "nothing"
        caps = ", ".join(each["caps"]) or "none"
        said = f"{each['workflow']} asks for {asks}; capabilities: {caps}"
        console.print(escape(said), soft_wrap=True)


VERBS = (
    Verb(
        "lint",
        "what is wrong or risky in workflow code, before it runs",
        run,
        (
            arg("paths", many=True),
            flag("fix", "declare what is asked for, in place"),
            flag("check", "refuse code that is not as tally.fingerprint.json says"),
            flag("accept", "write tally.fingerprint.json"),
            flag("strict", "warnings count"),
        ),
        {"ok": bool, "errors": int, "findings": [FINDING], "inferred": [INFERRED]},
        report,
    ),
)
