"""What `tally bundle` does: build, check, compare and show; no node is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from tallystick.authority.policy import policy_findings
from tallystick.cli import show, sources
from tallystick.cli.request import Request
from tallystick.cli.vendor import vendored
from tallystick.cli.verb import BAD, NO, OK, Done, Options, W, filled
from tallystick.errors import BadDefinition, Rejected
from tallystick.governance.patch import Blobs, bundle_of
from tallystick.governance.sealed import seals_of
from tallystick.model.bundle import WASM_MEDIA, Artifact, Bundle
from tallystick.model.bundle_authority import structural_authority
from tallystick.model.check import check, check_bundle, shown
from tallystick.model.definitions import Finding
from tallystick.modules.wasm_binary import read_binary
from tallystick.node.keys import find_key, node_key
from tallystick.playbooks.bundle import playing
from tallystick.reactions.bundle import reacting
from tallystick.values import canon
from tallystick.values.seal import bundle_statement

ACTIVE: Final = "active"


def build_path(_call: Any, options: Options) -> Done:
    """Build and write the one container of the sources."""
    given = vendored(options["vendor"])
    bundle = sources.bundle_at(options["path"], authority=options["authority"], vendored=given)
    if options["plays"]:
        bundle = playing(bundle)
    if options["reacts"]:
        bundle = reacting(bundle)
    out = Path(options["output"] or f"{Path(options['path']).absolute().stem}.tally.zip")
    data = bundle.to_zip()
    out.write_bytes(data)
    return Done({"bundle": bundle.root, "path": str(out), "size": len(data)})


def seal_path(call: Any, options: Options) -> Done:
    """Put a seal beside those that a built bundle has; its root stays what it is."""
    path = Path(options["path"])
    if not sources.is_built(path) or not path.is_file():
        raise Rejected(
            f"{path} is no built bundle",
            code="bundle.not_built",
            where={"path": str(path)},
            hint="first `tally bundle build PATH -o FILE`",
        )
    bundle = sources.built_bundle(path)
    keys = call.data / "keys"
    pair = (find_key(keys, options["key"]) if options["key"] else node_key(keys)).pair
    made = pair.sign(bundle_statement(bundle=bundle.root))
    others = [each for each in seals_of(bundle) if each.get("key") != made["key"]]
    out = Path(options["output"] or path)
    out.write_bytes(bundle.sealed(canon.encode([*others, made])).to_zip())
    found = {"bundle": bundle.root, "path": str(out), "key": pair.key_id}
    return Done({**found, "seals": len(others) + 1})


def active_bundle(call: Any) -> Bundle:
    """The bundle that is active in the world of the command, asked of its node."""
    world = filled(W, call, {})
    manifest = call.ask(Request("GET", world))["manifest"]

    def get(digest: bytes) -> bytes | None:
        path = f"{world}/blobs/{canon.text_of(digest)}"
        held: bytes = call.reply(Request("GET", path)).body
        return held

    return bundle_of(canon.raw_of(manifest), Blobs(get))


def findings_at(path: str, against: Bundle | None, authority: str | None) -> list[Finding]:
    """Everything that is wrong with a path where a bundle is expected."""
    place = Path(path)
    active = None if against is None else against.catalogue()
    if sources.is_built(place):
        return check_bundle(sources.built_bundle(place), active, policies=policy_findings)
    found, artifacts = sources.sources_at(place)
    if authority == sources.STRUCTURAL:
        found = structural_authority(found)
    return check(found, active, artifacts=artifacts, policies=policy_findings)


def check_path(call: Any, options: Options) -> Done:
    """Every finding; 2 on errors, 1 on warnings with `--strict`, else 0."""
    given = options["against"]
    against = None
    if given is not None:
        against = active_bundle(call) if given == ACTIVE else sources.bundle_at(given)
    found = findings_at(options["path"], against, options["authority"])
    errors = sum(not finding.warning for finding in found)
    value: dict[str, Any] = {
        "ok": not errors,
        "errors": errors,
        "warnings": len(found) - errors,
        "findings": [{**shown(f), "level": "warning" if f.warning else "error"} for f in found],
        "canonical": None,
    }
    if options["canonical"] and not errors:
        made = sources.bundle_at(options["path"], authority=options["authority"])
        value["canonical"] = [*made.definitions(), made.manifest]
    code = BAD if errors else NO if found and options["strict"] else OK
    return Done(value, code)


def report(console: Console, value: Any) -> None:
    """Findings, one a line with its hint."""
    for row in value["findings"]:
        place = f"{row['def']}{row['path']}"
        console.print(
            f"[bold]{row['level']}[/] {row['code']} {escape(place)}: {escape(row['message'])}",
            soft_wrap=True,
        )
        console.print(f"  hint: {escape(row['hint'])}", soft_wrap=True)
    if value["canonical"] is not None:
        console.print_json(data=value["canonical"])
    console.print(f"{value['errors']} errors, {value['warnings']} warnings")


def _parts(bundle: Bundle) -> dict[str, str]:
    """Every definition by name, with its hash; the wiring under the name `manifest`."""
    made = {defn["name"]: canon.hash(defn) for defn in bundle.definitions()}
    made["manifest"] = canon.hash(bundle.manifest)
    return made


def diff_paths(_call: Any, options: Options) -> Done:
    """Which definitions two bundles do not share; a difference is "no"."""
    one, two = (_parts(sources.bundle_at(options[side])) for side in ("a", "b"))
    value = {
        "equal": one == two,
        "added": sorted(two.keys() - one.keys()),
        "removed": sorted(one.keys() - two.keys()),
        "changed": sorted(name for name in one.keys() & two.keys() if one[name] != two[name]),
    }
    return Done(value, OK if value["equal"] else NO)


def show_path(_call: Any, options: Options) -> Done:
    """What a bundle holds, by name and hash."""
    bundle = sources.bundle_at(options["path"], authority=options["authority"])
    return Done(
        {
            "bundle": bundle.root,
            "manifest": canon.hash(bundle.manifest),
            "definitions": [
                {"kind": defn["$kind"], "name": defn["name"], "hash": canon.hash(defn)}
                for defn in bundle.definitions()
            ],
            "artifacts": [
                {
                    "hash": hash_,
                    "media": held.media,
                    "size": len(held.data),
                    "instances": _instances(held),
                }
                for hash_, held in sorted(bundle.artifacts.items())
            ],
            "sealed_by": [str(each.get("key")) for each in seals_of(bundle)],
            "routing": bundle.manifest.get("routing", {}),
        }
    )


def _instances(held: Artifact) -> str:
    """How a WASM module is run: its instances are pooled, or why each tick has a fresh one."""
    if held.media != WASM_MEDIA:
        return ""
    try:
        leaks = read_binary(held.data).leaks
    except BadDefinition as why:
        return f"refused: {why.code}"
    return f"fresh: {leaks[0]}" if leaks else "pooled"


def contents(console: Console, value: Any) -> None:
    """The same as tables."""
    console.print(f"bundle   {value['bundle']}", soft_wrap=True)
    console.print(f"manifest {value['manifest']}", soft_wrap=True)
    show.columns("kind", "name", "hash")(console, {"items": value["definitions"]})
    if value["artifacts"]:
        show.columns("media", "size", "instances", "hash")(console, {"items": value["artifacts"]})
