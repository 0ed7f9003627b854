"""Ways around guardrails on requests: none of them reaches the application, and ordinary requests do."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.support.content_codings import CODINGS
from tests.support.http_links import guards, http_link, masking, say
from tests.support.protocols.http_test_frames import Shown, request, sent_requests
from tests.support.protocols.wire_contracts import sent_to

from postern.domain.rules.guarded_objects import parse_guarded
from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.rules.statement import Effect
from postern.errors import Invalid
from postern.protocols.http.content.content_codings import zstd
from postern.protocols.httpproxy.dialect.httpproxy_parser import HttpproxyParser
from postern.protocols.wire_base import Side

ADMIN = Rule(RuleType.DENY_STATEMENTS, objects=("/admin/*", "/api/*/secrets"))
WRITES = Rule(RuleType.DENY_STATEMENTS, objects=("/reports/*",), effects=frozenset({Effect.WRITE}))
READ_ONLY = Rule(RuleType.READ_ONLY)
WORDS = Rule(RuleType.DENY_WORDS_LIST, words=("drop table", "/internal"), whole_words=False)
PATTERN = Rule(RuleType.PATTERN_MATCH, pattern_regex=r"(?i)X-Debug: *on")

PATHS = [
    *("/admin", "/admin/", "/admin/users", "/admin/users/7?x=1", "/ADMIN", "/Admin/Users", "/aDmIn"),
    *("/%61dmin", "/%61%64%6d%69%6e", "/a%64min/users", "/%41dmin", "/admin%2fusers", "/admin%2Fusers"),
    *("/admin%5cusers", "/x/%2e./admin"),
    *("//admin", "///admin", "/x//admin", "/./admin", "/x/../admin", "/x/%2e%2e/admin", "/x/.%2e/admin"),
    *("/%2e/admin", "/%2fadmin", "/x%2f..%2fadmin", "/x/..%2fadmin", "/x/..%5cadmin", "/x/..\\admin", "/\\admin"),
    *("/%5cadmin", "/%2561dmin", "/%25%36%31dmin", "/%252561dmin", "/x/%252e%252e/admin", "/%252fadmin", "/admin;x=1"),
    *("/admin;", "/admin;jsessionid=7/users", "/;/admin", "/x/..;/admin", "/x;a/../admin", "/;x=y/admin/", "/.;/admin"),
    *("/admin.", "/admin./", "/admin%20", "/admin%20/users", "/admin..", "/admin...", "/admin%00", "/admin%00.png"),
    *("/%00/admin", "/admin%09", "/admin%0a", "/admin%0d%0a", "/%ef%bc%8fadmin", "/%ef%bd%81dmin", "/adm%c4%b1n"),
    *("/%c0%afadmin", "/%c0%ae%c0%ae/admin", "/%e0%80%afadmin", "/%ff/admin", "/admin%", "/%adm", "/admin%2"),
    *("/%u0061dmin", "/api/v1/secrets/"),
    *("/admin%3fx", "/admin%23x", "/x/../../admin", "/x/y/../../admin", "/x/../x/../admin", "/.../admin/../admin"),
    *("/api/v1/secrets", "/api/v1/v2/secrets", "/API/v1/Secrets", "/api//v1/secrets", "/api/v1/%73ecrets"),
    *("/api/v1/x/../secrets", "/api/v1/secrets;x", "/api/v1/./secrets", "/api/v1%2fsecrets", "/api/v1/secrets%20"),
]  # fmt: skip

HEADERS = [
    ("/", {"x-original-url": "/admin"}),
    ("/", {"x-rewrite-url": "/admin/users"}),
    ("/", {"x-override-url": "/x/../admin"}),
    ("/public", {"x-original-uri": "/admin"}),
    ("/public", {"x-original-url": "/harmless"}),
    ("/public", {"destination": "http://app.test/admin/x"}),
    ("/public", {"destination": "/admin/x"}),
    ("/public", {"x_original_url": "/admin"}),
    ("/public", {"destination": "/x, /admin/x"}),
    ("/x/admin", {"x-script-name": "/x"}),
    ("/x/admin", {"script_name": "/x"}),
    ("/x/admin", {"x-forwarded-prefix": "/x"}),
]

METHODS = [
    *(("POST", "/reports/1", {}), ("PUT", "/reports/1", {}), ("PATCH", "/reports/1", {}), ("DELETE", "/reports", {})),
    *(("MKCOL", "/reports/1", {}), ("MOVE", "/reports/1", {}), ("COPY", "/reports/1", {}), ("LOCK", "/reports/1", {})),
    *(("FOO", "/reports/1", {}), ("TRACE", "/reports/1", {}), ("CONNECT", "/reports/1", {}), ("get", "/reports/1", {})),
    ("GET", "/reports/1?_method=DELETE", {}),
    ("GET", "/reports/1?_METHOD=put", {}),
    ("GET", "/reports/1?a=b&%5fmethod=delete", {}),
    ("GET", "/reports/1", {"x-http-method-override": "DELETE"}),
    ("GET", "/reports/1", {"x-http-method": "put"}),
    ("GET", "/reports/1", {"x-method-override": "patch"}),
    ("HEAD", "/reports/1", {"x-http-method-override": "SOMETHING"}),
    ("POST", "/reports/1", {"x-http-method-override": "GET"}),
    ("GET", "/reports/1", {"x_http_method_override": "DELETE"}),
    ("GET", "/reports/1?a=b;_method=delete", {}),
]

MULTIPART = {"content-type": "multipart/form-data; boundary=x"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
HIDDEN_METHODS: list[tuple[dict[str, str], bytes]] = [
    (FORM, b"_method=DELETE"),
    (FORM, b"a=b&%5Fmethod=DELETE"),
    (FORM, b"a=b&_method=%44ELETE"),
    (FORM, b"_METHOD=delete"),
    (MULTIPART, b'--x\r\nContent-Disposition: form-data; name="_method"\r\n\r\nDELETE\r\n--x--'),
    (MULTIPART, b"--x\nContent-Disposition: form-data; name=_method\nX: y\n\nDELETE\n--x--"),
    (
        MULTIPART,
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n\0\1\r\n'
        b'--x\r\nContent-Disposition: form-data; name="_method"\r\n\r\nDELETE\r\n--x--',
    ),
    ({"content-type": "application/json"}, b'{"_method": "DELETE"}'),
    ({"content-type": "application/json"}, b'{"\\u005fmethod": "\\u0044ELETE"}'),
]

BODIES: list[tuple[str, dict[str, str], bytes]] = [
    ("/run?q=drop%20table", {}, b""),
    ("/run?q=drop+table", {}, b""),
    ("/run?q=dr%6fp%20table", {}, b""),
    ("/%69nternal", {}, b""),
    ("/run", {"content-type": "text/plain"}, b"drop table users"),
    ("/run", {"content-type": "application/json"}, b'{"sql": "drop table users"}'),
    ("/run", {"content-type": "application/json"}, b'{"sql": "dr\\u006fp table users"}'),
    ("/run", {"content-type": "application/json"}, b'{"sql": "DROP \\u0074able users"}'),
    ("/run", {"content-type": "application/json"}, '{"sql": "drop table x"}'.encode("utf-16")),
    ("/run", {"content-type": "application/json"}, '{"sql": "drop table x"}'.encode("utf-16-le")),
    ("/run", {"content-type": "application/json"}, '{"sql": "drop table x"}'.encode("utf-32-be")),
    ("/run", {"content-type": "text/plain; charset=utf-16"}, "drop table x".encode("utf-16")),
    ("/run", {"content-type": "application/x-www-form-urlencoded"}, b"q=drop+table"),
    ("/run", {"content-type": "application/x-www-form-urlencoded"}, b"q=dr%6Fp%20table"),
    ("/run", {"content-type": "application/x-www-form-urlencoded"}, b"q=drop table\0"),
    (
        "/run",
        {"content-type": "multipart/form-data; boundary=x"},
        b"--x\r\nContent-Disposition: form-data\r\n\r\ndrop table",
    ),
    (
        "/run",
        {"content-type": "multipart/form-data; boundary=x"},  # Django decodes it
        b"--x\r\nContent-Disposition: form-data; name=q\r\nContent-Transfer-Encoding: base64\r\n\r\nZHJv\r\n--x--",
    ),
    (
        "/run",
        {"content-type": "multipart/form-data; boundary=x"},  # Go decodes it
        b'--x\nContent-Disposition: form-data; name="q"\ncontent-transfer-encoding:quoted-printable\n\n=64rop\n--x--',
    ),
    (
        "/run",
        {"content-type": "multipart/form-data; boundary=x"},
        b'--x\r\nContent-Disposition: form-data; name="q"\r\nContent-Type: text/plain; charset=utf-16\r\n\r\n'
        + "drop table".encode("utf-16")
        + b"\r\n--x--",
    ),
    *[
        (
            "/run",
            {"content-type": f"multipart/form-data; {boundary}"},
            b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\n\0\1\2'
            + filling
            + b'\r\n--x\r\nContent-Disposition: form-data; name="q"\r\n\r\ndrop table\r\n--x--',
        )
        for boundary in (
            "boundary=x",
            'boundary="x"',
            "BOUNDARY=x; a=b",
            "boundary=x; boundary=y",
            "a=b",
            "boundary*=x",
        )
        for filling in (b"", b"\0" * 100_000)
    ],
    ("/run", {"content-type": "multipart/mixed; boundary=x"}, b"--x\r\n\r\ndrop table\r\n--x\r\n\r\n\0\0--x--"),
    ("/run", {"content-type": "image/png"}, b'{"sql": "drop table users"}'),
    ("/run", {"content-type": "application/octet-stream"}, b'{"sql": "drop table users"}'),
    ("/run", {}, b'{"sql": "drop table users"}'),
    ("/run", {"content-type": "nonsense"}, b"drop table"),
    ("/run", {"content-type": "application/xml"}, b"<sql>drop table x</sql>"),
    ("/run", {"content-type": "application/xml"}, b"<sql>drop&#32;table x</sql>"),
    ("/run", {"content-type": "application/xml"}, b"<sql>&#100;&#x72;op table x</sql>"),
    ("/run", {"content-type": "application/xml"}, b"<sql>dr<![CDATA[op ta]]>ble x</sql>"),
    ("/run", {"content-type": "application/xml"}, b"<sql>dr<!-- x -->op<?x y?> table x</sql>"),
    ("/run", {"content-type": "text/xml"}, b"<!DOCTYPE a [<!ENTITY b 'drop'><!ENTITY c 'table'>]><a>&b; &c;</a>"),
    ("/run", {"content-type": "application/soap+xml"}, b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc'>]><a>&b;</a>"),
    ("/run", {"content-type": "application/xml"}, "<!DOCTYPE a [<!ENTITY b 'x'>]><a/>".encode("utf-16")),
    ("/run", {"content-type": "application/json"}, b'{"url": "/x?q=drop%20table"}'),
    ("/run", {"content-type": "application/json"}, b'{"html": "<b>drop&nbsp;table</b>"}'),
    ("/run", {"content-type": "application/x-www-form-urlencoded"}, b"q=dr%26%23111%3Bp+table"),
    ("/run", {"content-type": "application/x-www-form-urlencoded"}, b"q=dr%256Fp+table"),
    ("/run", {"content-type": "text/javascript"}, b"run('dr\\x6fp table')"),
    ("/run", MULTIPART, b"--x\r\nContent-Disposition: form-data; name*=utf-8''drop%20table\r\n\r\nx\r\n--x--"),
    ("/run?q=dr%256Fp%20table", {}, b""),
    ("/run", {"content-type": "text/plain; charset=klingon"}, b"drop table"),
    ("/run", {"content-type": "text/plain; charset=utf-7"}, b"+AGQ-rop table"),
    ("/run", {"content-type": "text/plain", "content-encoding": "br"}, b"whatever"),
    ("/run", {"content-type": "text/plain", "content-encoding": "gzip"}, b"not gzip"),
    ("/run", {"content-type": "text/plain", "content-encoding": "gzip, gzip"}, b"not gzip"),
    ("/run", {"content-type": "text/plain", "content-encoding": "gzip, dcb"}, b"not gzip"),
    ("/run", {"x-note": "drop table"}, b""),
    ("/run", {"x-debug": "on"}, b""),
    ("/run", {"X-Debug": "ON"}, b""),
]

ORDINARY = [
    *(("GET", "/"), ("GET", "/public"), ("GET", "/administration"), ("GET", "/myadmin"), ("GET", "/x/admin")),
    *(("GET", "/caf%C3%A9"), ("GET", "/a%20b/c"), ("GET", "/api/secrets"), ("GET", "/a.b/c.png"), ("GET", "/x/~user")),
    *(("GET", "/public?next=/admin"), ("GET", "/public?x=//admin"), ("GET", "/reports/1"), ("HEAD", "/reports/1")),
    *(("POST", "/other"), ("OPTIONS", "*"), ("PROPFIND", "/files"), ("GET", "/api/v1/secrets-list")),
    ("GET", "/a+b,c@d:e!"),
]  # fmt: skip


def is_refused(rule: Rule, method: str, target: str, headers: dict[str, str], body: bytes = b"") -> bool:
    link = http_link(guards(ADMIN, WRITES, rule, parser=HttpproxyParser()))
    effects = say(link, Side.CLIENT, request(target, body, method=method, headers=headers))
    forwarded, shown = sent_to(Side.TARGET, effects), Shown(sent_to(Side.CLIENT, effects))
    assert bool(forwarded) is not bool(shown.status)
    return not forwarded


@pytest.mark.parametrize("path", PATHS)
def test_path_is_denied_however_it_is_spelled(path: str) -> None:
    assert is_refused(WORDS, "GET", path, {})


@pytest.mark.parametrize(("target", "headers"), HEADERS)
def test_header_cannot_replace_the_path(target: str, headers: dict[str, str]) -> None:
    assert is_refused(WORDS, "GET", target, headers)


@pytest.mark.parametrize(("method", "target", "headers"), METHODS)
def test_method_cannot_be_hidden(method: str, target: str, headers: dict[str, str]) -> None:
    assert is_refused(WORDS, method, target, headers)
    assert is_refused(READ_ONLY, method, target.replace("reports", "other"), headers)


@pytest.mark.parametrize(("headers", "body"), HIDDEN_METHODS)
def test_method_cannot_be_hidden_in_a_body(headers: dict[str, str], body: bytes) -> None:
    for method in ("GET", "QUERY"):
        assert is_refused(WORDS, method, "/reports/1", headers, body)
        assert is_refused(READ_ONLY, method, "/other/1", headers, body)


def test_ordinary_upload_passes() -> None:
    file = b'Content-Disposition: form-data; name="f"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n\x89PNG\0'
    field = b'Content-Disposition: form-data; name="title"\r\n\r\nholiday'
    body = b"--x\r\n" + file + bytes(100_000) + b"\r\n--x\r\n" + field + b"\r\n--x--\r\n"
    assert not is_refused(WORDS, "POST", "/upload", MULTIPART, body)


@pytest.mark.parametrize(("target", "headers", "body"), BODIES)
def test_words_are_found_however_they_are_encoded(target: str, headers: dict[str, str], body: bytes) -> None:
    assert is_refused(PATTERN, "POST", target, headers, body) or is_refused(WORDS, "POST", target, headers, body)


@pytest.mark.parametrize(("method", "target"), ORDINARY)
def test_ordinary_request_passes(method: str, target: str) -> None:
    assert not is_refused(WORDS, method, target, {"accept": "application/json"})


def test_there_are_enough_ways() -> None:
    assert len(PATHS) + len(HEADERS) + len(METHODS) + len(BODIES) >= 120


def test_refusal_names_the_path() -> None:
    link = http_link(guards(ADMIN, parser=HttpproxyParser()))
    sent = request("/admin", headers={"accept": "application/json"})
    shown = Shown(sent_to(Side.CLIENT, say(link, Side.CLIENT, sent)))
    assert json.loads(shown.body)["message"].endswith("GET touches /admin")


@pytest.mark.parametrize("spelled", ["/a b", "/a?b", "/a#b", "//a", "/a/../b", "/a/.", "/a\0"])
def test_path_that_no_request_has_is_invalid(spelled: str) -> None:
    with pytest.raises(Invalid):
        parse_guarded(spelled, "objects")


@pytest.mark.parametrize("coding", CODINGS)
def test_compressed_body_is_judged_and_forwarded_as_it_was_judged(coding: str) -> None:
    """An application that ignores the coding could otherwise read text that a decoder skips."""
    name, compress = CODINGS[coding]
    headers = {"content-type": "text/plain", "content-encoding": name, "content-md5": "x"}
    for content, is_allowed in ((b"drop table users", False), (b"select 1", True)):
        link = http_link(guards(WORDS, parser=HttpproxyParser()))
        effects = say(link, Side.CLIENT, request("/run", compress(content), method="POST", headers=headers))
        forwarded = sent_requests(sent_to(Side.TARGET, effects))
        assert bool(forwarded) is is_allowed
        for head, body in forwarded:
            assert (body, head.length) == (content, len(content))
            assert coding == "identity" or {name for name, _ in head.headers} == {b"content-type"}


SKIPPED = {
    "gzip": b"\x1f\x8b\x08\x10" + bytes(6) + b"\r\n&q=drop table&\0" + gzip.compress(b"harmless", mtime=0)[10:],
    "zstd": b"\x50\x2a\x4d\x18\x0e\0\0\0&q=drop table&" + zstd.compress(b"harmless"),
}


@pytest.mark.parametrize("coding", SKIPPED)
def test_text_that_decoders_skip_does_not_reach_the_application(coding: str) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "content-encoding": coding}
    link = http_link(guards(WORDS, parser=HttpproxyParser()))
    effects = say(link, Side.CLIENT, request("/run", SKIPPED[coding], method="POST", headers=headers))
    ((head, body),) = sent_requests(sent_to(Side.TARGET, effects))
    assert (body, head.length) == (b"harmless", 8)


def test_compressed_body_passes_as_it_is_if_no_rule_judges_it() -> None:
    body = gzip.compress(b"drop table", mtime=0)
    headers = {"content-type": "text/plain", "content-encoding": "gzip", "content-md5": "x"}
    effects = say(http_link(masking()), Side.CLIENT, request("/run", body, method="POST", headers=headers))
    ((head, sent),) = sent_requests(sent_to(Side.TARGET, effects))
    assert sent == body
    assert {b"content-encoding", b"content-md5"} <= {name for name, _ in head.headers}
