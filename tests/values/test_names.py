"""Names: one spelling each, nothing repaired."""

from __future__ import annotations

import pytest

from tallystick.values import names

HEX64 = "75bd49cb964988d6fd2c058f51230c3dc2a254753751fbe0f313b4b1e0681b69"


@pytest.mark.clause("K-09")
@pytest.mark.parametrize(
    "name",
    ["com.acme/Order@1", "a/B@1", "a/b@10", "sys/timer.set@1", "x-y_z.0/A-b_c.9@99999", "a./A@1"],
)
def test_definition_names(name: str) -> None:
    """The form of a definition name (01 section 1), and its parts."""
    assert names.is_definition(name)
    assert f"{names.stem_of(name)}@{names.version_of(name)}" == name
    assert names.is_reserved(name) == name.startswith("sys/")


@pytest.mark.clause("K-09")
@pytest.mark.parametrize(
    "name",
    [
        "",
        "Order@1",
        "com.acme/Order",
        "com.acme/Order@",
        "com.acme/Order@0",
        "com.acme/Order@01",
        "com.acme/Order@-1",
        "com.acme/Order@1.0",
        "com.acme/Order@1 ",
        " com.acme/Order@1",
        "com.acme/Order@1\n",
        "Com.acme/Order@1",
        "1com/Order@1",
        "com.acme/1Order@1",
        "com.acme/Or/der@1",
        "com.acme//Order@1",
        "com.acme/Order@1@2",
        "com.acme/Örder@1",
        "com.acme/Order@\u0661",
        "com.acme/$Order@1",
        "a/" + "A" * 197 + "@1",
    ],
)
def test_refused_definition_names(name: str) -> None:
    """What is not exactly a definition name is none: no trimming, no folding, 200 characters."""
    assert not names.is_definition(name)


@pytest.mark.clause("K-09")
def test_longest_definition_name() -> None:
    """200 characters are the limit, 201 are over it."""
    name = "a/" + "A" * 196 + "@1"
    assert len(name) == 200
    assert names.is_definition(name)
    assert not names.is_definition(name + "0")


@pytest.mark.clause("K-09")
@pytest.mark.parametrize(
    ("name", "field", "tag"),
    [
        ("order_id", True, True),
        ("A", True, True),
        ("a.b-c_d9", True, True),
        ("a" * 64, True, True),
        ("_private", True, False),
        ("a" * 65, False, False),
        ("", False, False),
        ("$tag", False, False),
        ("9a", False, False),
        ("-a", False, False),
        (".a", False, False),
        ("a b", False, False),
        ("a\n", False, False),
        ("é", False, False),
        ("a/b", False, False),
    ],
)
def test_fields_and_tags(name: str, field: bool, tag: bool) -> None:
    """The forms of field names and variant tags."""
    assert names.is_field(name) is field
    assert names.is_tag(name) is tag


@pytest.mark.clause("K-09")
def test_hashes() -> None:
    """A hash is `sha256:` and 64 lower-case hex digits, and nothing around it."""
    assert names.is_hash("sha256:" + HEX64)
    refused = [HEX64, "sha256:" + HEX64.upper(), "sha256:" + HEX64[:-1], "sha256:" + HEX64 + "0"]
    refused += ["SHA256:" + HEX64, "sha512:" + HEX64, "sha256:" + HEX64 + "\n", ""]
    assert not [text for text in refused if names.is_hash(text)]


@pytest.mark.clause("K-09")
def test_uuids() -> None:
    """A world id is a lower-case uuid in five groups."""
    good = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
    assert names.is_uuid(good)
    refused = [good.upper(), good.replace("-", ""), "{" + good + "}", good + "\n", good[:-1], ""]
    assert not [text for text in refused if names.is_uuid(text)]


def test_a_bare_name_is_close_to_its_full_one() -> None:
    """D13: who leaves out namespace and version is told both; what is like none gets no hint."""
    known = ["demo/Greet@1", "demo/Guest@1"]
    assert names.nearest("Greet", known) == "did you mean demo/Greet@1?"
    assert names.nearest("demo/Gest@1", known) == "did you mean demo/Guest@1?"
    assert names.nearest("Zebra", known) == ""
