"""Write the golden vectors of values, by construction.

Nothing here asks the codec: the expected bytes and hashes are copied from the design or spelled
out, and the refused strings are put together in `faults`.
The files are language-neutral, so that others can check us:

    accepted.json    value, document (hex) and sha256
    refused.json     document (hex, then `pad.count` times the byte `pad.byte`), code and offset
    identities.json  documents of the model whose sha256 is published
    seals.json       statements, signatures and merkle roots

A value is written as one of ["null"], ["bool",b], ["int","decimal"], ["text",s], ["bytes","hex"],
["float","f64 as hex"], ["array",[v,..]], ["map",[[key,v],..]].
Run as `python -m tests.golden.values.build` to write the files again.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from struct import pack
from typing import Any

from tests.golden.values.faults import PREFIX, refused

HERE = Path(__file__).parent
WORLD = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
INTENT = "30e58828e8e2a4628011073cf1c8f23806ba5f0ebc405aed2326167271e826bf"


def tree(value: Any) -> list[Any]:
    """A Python value in the neutral notation."""
    match value:
        case None:
            return ["null"]
        case bool():
            return ["bool", value]
        case int():
            return ["int", str(value)]
        case str():
            return ["text", value]
        case bytes():
            return ["bytes", value.hex()]
        case float():
            return ["float", pack(">d", value).hex()]
        case list():
            return ["array", [tree(item) for item in value]]
        case dict():
            return ["map", [[tree(key), tree(item)] for key, item in value.items()]]
    raise TypeError(type(value))


# ---- accepted -------------------------------------------------------------------------------

POINT = {
    "$kind": "defschema",
    "name": "com.acme/Point@1",
    "type": {"record": {"x": {"int": {}}, "y": {"int": {}}}},
}
# The rows of the design, copied: (name, value, document, sha256).
DESIGN: list[tuple[str, Any, str, str]] = [
    (
        "published: empty map",
        {},
        "d9d9f7a0",
        "75bd49cb964988d6fd2c058f51230c3dc2a254753751fbe0f313b4b1e0681b69",
    ),
    (
        "published: small map",
        {"a": 1, "b": 2},
        "d9d9f7a2616101616202",
        "7d5fc784e8d341244b992c902413575266e3140e9081fe12fc95849cf27e7df6",
    ),
    (
        "published: array",
        ["hi", 1, True, None],
        "d9d9f78462686901f5f6",
        "0e2c2f23ecdea86fcc33f4975460ea705a19da61c5eef7218112387036581271",
    ),
    (
        "published: a schema",
        POINT,
        (
            "d9d9f7a3646e616d6570636f6d2e61636d652f506f696e7440316474797065a1667265636f7264a26178a1"
            "63696e74a06179a163696e74a065246b696e6469646566736368656d61"
        ),
        "9b74eadb8810612f1becfbf9b4502cccb0ef290b90e3e912b316fc279e779add",
    ),
    (
        "bytewise key order",
        {10: 0, 100: 0, -1: 0, "a": 0, "b": 0, "aa": 0},
        "d9d9f7a60a00186400200061610061620062616100",
        "1b02705d5cba8f380b104c3653f51848ae91478307484e046a820e098230c31e",
    ),
    (
        "json floats",
        {"x": 1.5, "y": 2.0, "z": 0.1},
        "d9d9f7a36178f93e00617902617afb3fb999999999999a",
        "0579c62fe53d5906ceda4bac01d94f09257eaf1b7533d22dfa088758280f4230",
    ),
    (
        "integer edges",
        [0, 23, 24, -1, -(2**63), 2**64 - 1],
        "d9d9f78600171818203b7fffffffffffffff1bffffffffffffffff",
        "e922c07d95cff9e7fa647ffdaee5b76ebc0e26212f54ab16afcc28439839534c",
    ),
    (
        "variant arm with a value",
        {"$tag": "Ok", "$value": {"n": 1}},
        "d9d9f7a26424746167624f6b662476616c7565a1616e01",
        "b838cecbc8ebfc3df4c3187a06e3efc8ef0b97b37c7eca1d325769eb7e624823",
    ),
    (
        "variant unit arm",
        {"$tag": "Idle"},
        "d9d9f7a164247461676449646c65",
        "750457e2c553e922a2b91632d6a7b7de131d8b150ad5deae9bd84ccf1223dc21",
    ),
    (
        "record with an absent option",
        {"a": 1, "b": None},
        "d9d9f7a26161016162f6",
        "702ab04766de194d2a6c68a7dc1b3071d44302e3cccfca25c3a28f6f8e1d3bd1",
    ),
]
# Edges of heads, floats and depth; the items are spelled out by hand.
EDGES: list[tuple[str, Any, str]] = [
    ("255", 255, "18ff"),
    ("256", 256, "190100"),
    ("65535", 65_535, "19ffff"),
    ("65536", 65_536, "1a00010000"),
    ("2^32-1", 2**32 - 1, "1affffffff"),
    ("2^32", 2**32, "1b0000000100000000"),
    ("-24", -24, "37"),
    ("-25", -25, "3818"),
    ("-256", -256, "38ff"),
    ("-257", -257, "390100"),
    ("empty text", "", "60"),
    ("text of two scripts", "aü水", "6661c3bce6b0b4"),
    ("text beyond the first plane", "\U00010000", "64f0908080"),
    ("the last code point", "\U0010ffff", "64f48fbfbf"),
    ("text is not normalised", "e\u0301", "6365cc81"),
    ("text of 23 bytes", "a" * 23, "77" + "61" * 23),
    ("text of 24 bytes", "a" * 24, "7818" + "61" * 24),
    ("text of 256 bytes", "a" * 256, "790100" + "61" * 256),
    ("empty bytes", b"", "40"),
    ("bytes", b"\x00\xff", "4200ff"),
    ("bytes of 24", bytes(24), "5818" + "00" * 24),
    ("a document inside a document", bytes.fromhex("d9d9f7a0"), "44d9d9f7a0"),
    ("empty array", [], "80"),
    ("array of 24", [0] * 24, "9818" + "00" * 24),
    ("map of 24", dict.fromkeys(range(24)), "b818" + "".join(f"{n:02x}f6" for n in range(24))),
    ("empty key", {"": 0}, "a16000"),
    ("a long key after a short one", {"b": 0, "aa": 0}, "a26162006261" + "6100"),
    ("false", False, "f4"),
    ("half, the smallest", 2.0**-24, "f90001"),
    ("half, negative", -1.5, "f9be00"),
    ("single", 2.0**-25, "fa33000000"),
    ("single beyond 2^53", 2.0**60, "fa5d800000"),
    ("double", 1e300, "fb7e37e43c8800759c"),
    ("double, the smallest", 5e-324, "fb0000000000000001"),
    ("2.0 is 2", 2.0, "02"),
    ("-0.0 is 0", -0.0, "00"),
    ("2^53 as a float is an integer", 2.0**53, "1b0020000000000000"),
]


def deep(levels: int) -> list[Any]:
    """An array in an array, `levels` deep."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def accepted() -> list[dict[str, Any]]:
    """Vectors that encode to these bytes and, being canonical, decode to the value again."""
    rows = list(DESIGN)
    edges = [*EDGES, ("64 levels", deep(64), "81" * 63 + "80")]
    for name, value, item in edges:
        data = PREFIX + item
        rows.append((name, value, data, sha256(bytes.fromhex(data)).hexdigest()))
    return [
        {"name": name, "value": tree(value), "hex": data, "sha256": digest}
        for name, value, data, digest in rows
    ]


# ---- identities and seals -------------------------------------------------------------------


# tidy: mostly tables, which are long by nature

# The identities of the model (02 section 5), as the documents that are hashed.
EFFECT = "sys/timer.set@1"
MODULE = "sys/builtin_effects@1"
WORKFLOW = {
    "$kind": "defworkflow",
    "name": "com.acme/order.step@1",
    "state": "com.acme/OrderState@1",
    "event": "com.acme/OrderEvent@1",
    "key_schema": "com.acme/OrderId@1",
    "effects_emitted": [EFFECT],
    "impl": {"module": "com.acme/order_wasm@1", "entrypoint": "order_step"},
}
WORKFLOW_HASH = "a8e924d5c99d74dc3f51ab639118aaf6d14ac8f7f54b0e5ebaa2e5f4d5f2b51b"
EFFECT_HASH = "d17a6699bf9edcf191f7956c38b9c2acc0daee5e397c6f8a6b211bac5e66177e"
MODULE_HASH = "958bbd0079c9768712e79317788745e84b98c8d93b42f7e4140e4908f2c6d936"
POSITION_KEY = "83c8ef4337c362bc102c1d448dbccdeb7259c2ab6cfbfcf0120a77bac8bc9980"
KEY = bytes.fromhex("d9d9f7636f2d31")
IDENTITIES: list[tuple[str, Any, str]] = [
    (
        "event",
        {
            "schema": "com.acme/OrderCreated@1",
            "value": bytes.fromhex(
                "d9d9f7a3646e6f7465f6686f726465725f6964636f2d316c616d6f756e745f63656e74731904e2"
            ),
        },
        "bddb7a91db03f56a02810bc8ad8fd2680924d04bd263f9b966aae0576eac177b",
    ),
    ("workflow", WORKFLOW, WORKFLOW_HASH),
    (
        "effect",
        {
            "$kind": "defeffect",
            "name": EFFECT,
            "params": "sys/TimerSetParams@1",
            "receipt": "sys/TimerSetReceipt@1",
            "impl": {"module": MODULE, "entrypoint": "timer.set"},
        },
        EFFECT_HASH,
    ),
    (
        "module",
        {"$kind": "defmodule", "name": MODULE, "runtime": {"kind": "builtin"}},
        MODULE_HASH,
    ),
    (
        "position key",
        {
            "origin_workflow": WORKFLOW["name"],
            "origin_workflow_hash": "sha256:" + WORKFLOW_HASH,
            "origin_instance_key": KEY,
            "effect": EFFECT,
            "effect_hash": "sha256:" + EFFECT_HASH,
            "requested_idempotency_key": b"",
            "effect_index": 0,
            "emitted_at_seq": 7,
        },
        POSITION_KEY,
    ),
    (
        "intent without a key",
        {
            "effect": EFFECT,
            "effect_hash": "sha256:" + EFFECT_HASH,
            "executor_module": MODULE,
            "executor_module_hash": "sha256:" + MODULE_HASH,
            "executor_entrypoint": "timer.set",
            "params": bytes.fromhex("d9d9f7a2636b6579636f2d316d64656c697665725f61745f6e731903e8"),
            "idempotency_key": bytes.fromhex(POSITION_KEY),
        },
        INTENT,
    ),
    (
        "intent with a key",
        {
            "$type": "intent_key@1",
            "origin_workflow": WORKFLOW["name"],
            "origin_instance_key": KEY,
            "origin_born_seq": 2,
            "effect": EFFECT,
            "idempotency_key": b"remind-1",
        },
        "6b6acdba0669a68fdd62eeafc54b0d2d7d348fbf748d1e0dd0341c2c76298a58",
    ),
    (
        "dispatch key",
        {"$type": "dispatch@1", "world": WORLD, "intent": "sha256:" + INTENT},
        "95e430856be97ecb43d042b41a9ee31c7d4c97085209220e27e3708e9dc502d9",
    ),
    (
        "shape of Point",
        {"$type": "shape@1", "type": POINT["type"]},
        "d7eee10ec65ac40de1d1c7b578500f6a940d90fb72c8217b9f00352af124f071",
    ),
]


def identities() -> list[dict[str, Any]]:
    """Documents of the model and their published hashes."""
    return [{"name": n, "value": tree(v), "sha256": digest} for n, v, digest in IDENTITIES]


def seals() -> dict[str, Any]:
    """The vector of 01 section 7."""
    return {
        "secret": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "key_id": "21fe31dfa154a261",
        "payload": "d9d9f7a2636b6579636f2d316f64656c6976657265645f61745f6e731903e8",
        "receipt": {
            "world": WORLD,
            "intent": "sha256:" + INTENT,
            "effect": "sys/timer.set@1",
            "status": "ok",
            "payload_hash": "sha256:c10e44cae454a7276dfb66adfd2e8a0d"
            "2571bb1ae96db4e971a95794aa83cfc5",
            "executor": "timer",
            "attempt": 1,
            "started_ns": 900,
            "ended_ns": 1001,
            "usage": None,
        },
        "statement_bytes": 320,
        "statement_sha256": "16f587cdd262d145d0c3e5f787e02e399754c2231dcef5308396f2b5fdd5dd4e",
        "signature": "edf343fe848056a26d18051975192a224a006a37e37e5c96e377d2d6cc298666"
        "40bbadeefefccddbcc689ec1b715c998303f7beeb44cce190d2e7e2aedfa3704",
        "batch_attempts": [1, 2, 3],
        "batch_root": "09f931826cf6463525893085093c274bfb863fccf6cfe9b06ae3152bfffc2304",
        "batch_signature": "d6df4b11e8b04d506b13e77047ae27f1eeba16037c32f43ad4fb7159e5c18724"
        "ae45a1d08b899d3dc5390cb6c49d5d068828286bd91a88a056fcb1d90fad0300",
    }


def files() -> dict[str, str]:
    """The text of each golden file."""
    made = {
        "accepted.json": accepted(),
        "refused.json": refused(),
        "identities.json": identities(),
    }
    lines = {
        name: "[\n" + ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows) + "\n]\n"
        for name, rows in made.items()
    }
    return {**lines, "seals.json": json.dumps(seals(), indent=1) + "\n"}


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="ascii")
