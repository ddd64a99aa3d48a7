"""Hostile URLs and paths: each is `cap.exceeded`, and the honest ones beside them pass."""

# tidy: the corpora stand here, one string a line.

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.authority.addresses import address_allowed, is_inside, read_address, read_net
from tallystick.authority.paths import glob_covers, unclean
from tallystick.authority.urls import Url, read_url
from tests.authority.grants import code_of, grant, judge

# Under a grant for api.example, https, path /v1, and no inside network.
_URL_TEXT = """
https://api.example@evil.example/v1
https://user:pw@api.example/v1
https://api.example:443@evil.example/v1
https://api.example%40evil.example/v1
https://evil.example/v1
https://evil.example?api.example/v1
https://evil.example#api.example/v1
https://api.example#@evil.example/v1
https://evil.example\\@api.example/v1
https://api.example\\.evil.example/v1
https:\\\\api.example/v1
https:/api.example/v1
https:api.example/v1
//api.example/v1
api.example/v1
http://api.example/v1
ftp://api.example/v1
file:///etc/passwd
gopher://api.example/v1
javascript://api.example/v1
https://api.example./v1
https://api.example.evil.example/v1
https://xapi.example/v1
https://.api.example/v1
https://api..example/v1
https://-api.example/v1
https://api.exa%6dple/v1
https://api.example:/v1
https://api.example:0/v1
https://api.example:65536/v1
https://api.example:0443/v1
https://api.example:443:80/v1
https://api.example/v1/../admin
https://api.example/v1/./../admin
https://api.example/v1/%2e%2e/admin
https://api.example/v1/.%2E/admin
https://api.example/v1/%252e%252e/admin
https://api.example/v1/..%2fadmin
https://api.example/v1/..%5cadmin
https://api.example/v1/..;/admin
https://api.example/v1/..\\admin
https://api.example/v1%2f..%2fadmin
https://api.example/v1//admin
https://api.example//v1
https://api.example/v1/%00
https://api.example/v1/%0d%0aHost:x
https://api.example/v1/%zz
https://api.example/v1/%
https://api.example/v12
https://api.example/V1
https://api.example/
https://api.example
https://api.example?/v1
https://[::1]/v1
https://[api.example]/v1
https://[2606:4700::1111]x/v1
https:///v1
https://
"""
URLS = [
    *_URL_TEXT.split(),
    "https://\u24d0pi.example/v1",
    "https://api\u3002example/v1",
    "",
    "https://api.example/v1 x",
    " https://api.example/v1",
    "https://api.example/v1\n",
    "https://api.example\t/v1",
    "https://api\u200b.example/v1",
    "https://\u0430pi.example/v1",
    "https://api.example:44\uff13/v1",
    "https://api.example/v1/\x00",
    "https://api.example/v1/" + "a" * 9000,
]

# Under a grant without any field: only the inside rule stands.
_INSIDE_TEXT = """
http://127.0.0.1/
http://127.1/
http://127.0.1/
http://2130706433/
http://017700000001/
http://0x7f000001/
http://0x7f.0.0.1/
http://0177.0.0.1/
http://127.0.0.01/
http://127.0.0.1./
http://0/
http://0.0.0.0/
http://00000000/
http://10.0.0.1/
http://172.16.0.1/
http://172.31.255.255/
http://192.168.1.1/
http://100.64.0.1/
http://100.100.100.200/latest/meta-data
http://169.254.169.254/latest/meta-data
http://168.63.129.16/
http://192.0.0.192/
http://198.18.0.1/
http://224.0.0.1/
http://240.0.0.1/
http://255.255.255.255/
http://256.256.256.256/
http://1.2.3/
http://1.2.3.4.5/
http://[::]/
http://[::1]/
http://[0:0:0:0:0:0:0:1]/
http://[::ffff:127.0.0.1]/
http://[::ffff:7f00:1]/
http://[::ffff:8.8.8.8]/
http://[::127.0.0.1]/
http://[64:ff9b::127.0.0.1]/
http://[64:ff9b::a9fe:a9fe]/
http://[64:ff9b:1::1]/
http://[2002:7f00:1::]/
http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/
http://[2001:db8::1]/
http://[fe80::1]/
http://[fe80::1%25eth0]/
http://[fe80::1%eth0]/
http://[fc00::1]/
http://[fd00:ec2::254]/
http://[ff02::1]/
http://[::1
http://::1/
http://[1::2::3]/
http://localhost/
http://LOCALHOST/
http://a.localhost/
http://localhost.localdomain/
http://metadata.google.internal/
http://printer.local/
http://intranet/
http://router.lan/
http://nas.home.arpa/
"""
INSIDE = _INSIDE_TEXT.split()

PATHS = [
    "",
    "/",
    "/etc/passwd",
    "//etc/passwd",
    "..",
    "../x",
    "../../etc/passwd",
    "docs/..",
    "docs/../x",
    "docs/../../x",
    "docs/./a",
    "./a",
    ".",
    "docs//a",
    "docs/",
    "~/x",
    "~root/.ssh/id",
    "..\\x",
    "docs\\..\\x",
    "\\\\server\\share",
    "C:\\x",
    "C:/x",
    "c:x",
    "docs/a\x00.md",
    "docs/a\n.md",
    "docs/\x1b[2J",
    "docs/a\x7f",
    "docs/a\x85b",
    ".git",
    ".git/config",
    ".GIT/hooks/pre-commit",
    "docs/.git/config",
    ".git /config",
    ".git./config",
    "git~1/config",
    ".g\u200cit/config",
    ".git\u200b/config",
    "docs/.. /x",
    "docs/../",
    "docs/...",
    "docs/a ",
    " docs/a",
    "docs/a.",
    "docs/a:stream",
    "docs/\u202egpj.exe",
    "docs/\ufeffa",
    "docs/\ud800",
    "docs/*",
    "docs/a?",
    "docs/<a>",
    'docs/"a"',
    "docs/a|b",
    "a" * 5000,
    "docs/\u2028a",
    "docs/a\u00ad",
]

API = grant("http.out", hosts=["api.example"], schemes=["https"], path_prefixes=["/v1"])
OPEN = grant("http.out")
FILES = grant("file")


def ask(url: str) -> dict[str, object]:
    return {"method": "GET", "url": url, "headers": None, "body": None}


@pytest.mark.clause("F-12", "K-29")
def test_the_corpus_is_as_large_as_promised() -> None:
    """AG-07: more than 60 URLs and 50 paths, none twice."""
    assert len(set(URLS)) == len(URLS) >= 60
    assert len(set(INSIDE)) == len(INSIDE) >= 50
    assert len(set(PATHS)) == len(PATHS) >= 50


@pytest.mark.clause("F-12", "K-29")
@pytest.mark.parametrize("url", URLS, ids=range(len(URLS)))
def test_hostile_urls_are_exceeded(url: str) -> None:
    """AG-07: no spelling leads past the host, scheme or path of the grant."""
    assert code_of(judge("http.request", API, ask(url))) == "cap.exceeded"


@pytest.mark.clause("F-12", "K-29")
@pytest.mark.parametrize("url", INSIDE, ids=range(len(INSIDE)))
def test_inside_networks_are_exceeded(url: str) -> None:
    """AG-07: a grant without `cidrs` reaches no inside address or name, however it is spelled."""
    assert code_of(judge("http.request", OPEN, ask(url))) == "cap.exceeded"


@pytest.mark.clause("F-12", "K-29")
@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_hostile_paths_are_exceeded(path: str) -> None:
    """AG-07: no path leaves its workspace, enters .git, or means two things."""
    for name in ("file.read", "file.write", "file.delete"):
        judged = judge(name, FILES, {"workspace": "w", "path": path, "content": None})
        assert code_of(judged) == "cap.exceeded"


@pytest.mark.clause("K-29")
@pytest.mark.parametrize(
    "url",
    [
        "https://api.example/v1",
        "HTTPS://API.Example/v1/charges/17?x=1&y=..%2f#"[:-1],
        "https://api.example:443/v1/a%20b",
        "https://api.example:8443/v1/~x;v=1/a.b..c",
    ],
)
def test_control_honest_urls_pass(url: str) -> None:
    """The control of AG-07: what the grant means is allowed."""
    assert code_of(judge("http.request", API, ask(url))) == "ok"


@pytest.mark.clause("K-29")
@pytest.mark.parametrize(
    "path", ["a", "docs/a.md", ".github/x.yml", "a b/ü.txt", ".gitignore", "a..b"]
)
def test_control_honest_paths_pass(path: str) -> None:
    """The control of AG-07: ordinary relative paths are allowed."""
    assert code_of(judge("file.read", FILES, {"workspace": "w", "path": path})) == "ok"


@pytest.mark.clause("K-29")
def test_addresses_and_networks() -> None:
    """Networks contain what they contain, families never mix, sloppy spellings are none."""
    public = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"]
    for text in public:
        address = read_address(text)
        assert address is not None
        assert not is_inside(address)
    inner = read_address("10.1.2.3")
    assert inner is not None
    assert address_allowed(inner, ["10.1.0.0/16"])
    assert not address_allowed(inner, ["10.2.0.0/16", "::/0", "broken", "10.0.0.0/33"])
    assert read_net("10.0.0.1/8") is None
    assert read_net("10.0.0.1") == read_net("10.0.0.1/32")
    assert [read_address(text) for text in ("1.2.3", "01.2.3.4", "1.2.3.+4", "g::", "1:2")] == [
        None
    ] * 5


@pytest.mark.clause("F-12")
@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab./%2e\\:@#?[]", max_size=20), st.text(alphabet="a./\\ ~:*", max_size=12))
def test_what_is_accepted_is_plain(rest: str, path: str) -> None:
    """Whatever passes the readers has a plain host and no segment that climbs."""
    url = read_url("https://" + rest)
    if isinstance(url, Url):
        assert not any(c in url.host for c in "@%\\#?/ ")
        assert ".." not in url.path.replace("%2e", ".").split("/")
    if unclean(path) is None:
        assert not path.startswith(("/", "~"))
        assert not {"", ".", ".."}.intersection(path.split("/"))
        assert glob_covers("**", path)
