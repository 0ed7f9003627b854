"""Values in runbooks of HTTP requests stay in their places, whatever they are."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.httpproxy.httpproxy_script import HttpproxyScript
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.template import RenderError, parse

HOSTILE = [
    *("plain", "", " ", "a b", "a/b", "a?b=c&d=e#f", "a;b", "'", '"', '"}, "admin": true, "x": {"', "\\", '\\"'),
    *("%2e%2e", "%", "%41", "+", "a+b", "é€😀", "{{ .x }}", "*", "~", "###", "### GET /admin", "#", "//", "x\u2028y"),
    *("a\r\nX-Admin: 1", "a\n\nbody", "a\n###\nDELETE /users", "\n###\n", "\r", "\t", "; admin=1", "a, b", ":"),
    *("GET /x", "a=1&admin=1"),
]  # fmt: skip
STEPS = ["..", ".", "../admin", "..\\admin", "a/../b", "a/..", "%2e%2e", "%2e%2e%2fadmin", "%252e%252e", "..;/x", "./x"]
SIGNS = st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from('"\\/#?&=;,:%+{}\r\n.\t ')
TEXTS = st.text(SIGNS, max_size=30)


FIRST = 'GET /first?x={{ .x | type "textarea" | squote }}'


def requests(text: str, **values: str) -> list[tuple[RequestHead, bytes]]:
    """What a runbook sends. Raises RenderError."""
    script = parse(text).render(values, ScriptSyntax.HTTP).text
    found: list[tuple[RequestHead, bytes]] = []
    for request in HttpproxyScript(script).requests():
        for frame in f.HttpFrameReader().feed(request.data):
            if frame.kind == f.REQUEST:
                found.append((f.read_request(frame.payload), b""))
            elif frame.kind == f.REQUEST_DATA:
                found[-1] = (found[-1][0], found[-1][1] + frame.payload)
    return found


def one(text: str, value: str) -> tuple[RequestHead, bytes] | None:
    """The only request of a runbook between two others; None if the value is rejected."""
    try:
        first, middle, last = requests(f"{FIRST}\n###\n{text}\n###\nGET /last", x=value)
    except RenderError:
        return None
    assert (first[0].path, last[0].target) == ("/first", "/last")
    return middle


def check_path(value: str) -> bool:
    found = one("GET /a/{{ .x | squote }}/b?c=d", value)
    if found is None:
        return False
    path, _, query = found[0].target.partition("?")
    assert (path.split("/")[:2], path.split("/")[3:], query) == (["", "a"], ["b"], "c=d")
    assert unquote(path.split("/")[2]) == value
    return True


def check_query(value: str) -> bool:
    found = one("GET /a?b={{ .x | squote }}&c=d", value)
    assert found is not None
    assert found[0].path == "/a"
    assert parse_qs(found[0].query, keep_blank_values=True) == {"b": [value], "c": ["d"]}
    return True


def check_header(value: str) -> bool:
    found = one("GET /a\nX-A: {{ .x | squote }}\nX-B: b", value)
    if found is None:
        return False
    assert dict(found[0].headers) == {b"x-a": value.strip().encode(), b"x-b": b"b"}
    assert found[1] == b""
    return True


def check_part_of_header(value: str) -> bool:
    found = one("GET /a\nCookie: a={{ .x | squote }}; b=c", value)
    if found is None:
        return False
    assert dict(found[0].headers)[b"cookie"].decode().split(";") == [f"a={value}", " b=c"]
    return True


def check_json(value: str) -> bool:
    text = (
        'POST /a\n\n{"v": {{ .x | dquote }}, {{ .x | dquote }}: 1, "in": "a {{ .x | squote }} \\" b",\n'
        "{{ .x | squote }}: [{{ .x | dquote }}]}"
    )
    found = one(text, value)
    assert found is not None
    assert json.loads(found[1], strict=False, object_pairs_hook=list) == [
        ("v", value),
        (value, 1),
        ("in", f'a {value} " b'),
        (value, [value]),
    ]
    return True


def check_form(value: str) -> bool:
    found = one("POST /a\nContent-Type: application/x-www-form-urlencoded\n\nb={{ .x | squote }}&c=d", value)
    assert found is not None
    assert parse_qs(found[1].decode(), keep_blank_values=True) == {"b": [value], "c": ["d"]}
    return True


CHECKS = [check_path, check_query, check_header, check_part_of_header, check_json, check_form]


@pytest.mark.parametrize("check", CHECKS)
def test_hostile_value_stays_in_its_place(check) -> None:  # type: ignore[no-untyped-def]
    accepted = [value for value in HOSTILE if check(value)]
    assert {"plain", "", "é€😀"} <= set(accepted)


@given(TEXTS, st.sampled_from(CHECKS))
def test_any_value_stays_in_its_place(value: str, check) -> None:  # type: ignore[no-untyped-def]
    check(value)


@pytest.mark.parametrize("value", STEPS)
def test_no_value_is_a_step_in_the_path(value: str) -> None:
    assert one("GET /a/{{ .x | squote }}/b", value) is None
    assert one("GET /a/{{ .x | squote }}", value) is None
    assert one("GET /a?b={{ .x | squote }}", value) is not None


def test_dots_beside_dots_are_no_step() -> None:
    assert one("GET /a/.{{ .x | squote }}/b", ".") is None
    assert one("GET /a/{{ .x | squote }}{{ .x | squote }}/b", ".") is None
    assert one("GET /a/v1{{ .x | squote }}/b", ".") is not None


REJECTED = [
    ("{{ .x | squote }}", "/a"),
    ("{{ .x | squote }} /a", "GET"),
    ("GET {{ .x | squote }}", "/a"),
    ("GET /a {{ .x | squote }}", "b"),
    ("GET /a\n{{ .x | squote }}: b", "X-A"),
    ("GET /a\nX-{{ .x | squote }}: b", "A"),
    ("GET /a\nX-A: a; b={{ .x | squote }}", "c; d=e"),
    ("GET /a\nX-A: {{ .x | squote }}; d=e", "b; d=f"),
    ("GET /a\nCookie: {{ .x | squote }}", "a=b; c=d"),
    ("POST /a\n\n{{ .x | squote }}", '{"a": 1}'),
    ("POST /a\nContent-Type: text/plain\n\n{{ .x | squote }}", "a b"),
    ("POST /a\nContent-Type: application/xml\n\n<a>{{ .x | squote }}</a>", "<b/>"),
    ("POST /a\nContent-Type: application/json\nContent-Type: text/plain\n\n{{ .x | squote }}", "a b"),
    ('POST /a\n\n{"a": "\\{{ .x | squote }}"}', "n"),
    ('POST /a\n\n{"a": "{{ .x | squote }}', "not closed,"),
    ('POST /a\n\n{"a": "{{ .x | squote }}\n###\nGET /b', "not closed,"),
    ("GET /a?b={{ .x | quotechar `|` }}", "a b"),
]


@pytest.mark.parametrize(("text", "value"), REJECTED)
def test_value_without_a_place_is_rejected(text: str, value: str) -> None:
    with pytest.raises(RenderError):
        requests(text, x=value)


def test_plain_values_are_allowed_in_any_body() -> None:
    ((_, body),) = requests("POST /a\nContent-Type: application/xml\n\n<a>{{ .x | squote }}</a>", x="B_1")
    assert body == b"<a>B_1</a>"


def test_comments_cannot_be_left() -> None:
    text = '# {{ .x | type "textarea" | squote }}\nGET /a\n# {{ .x | squote }}\nX-A: b\n### {{ .x | dquote }}'
    ((head, _),) = requests(text, x="\nDELETE /")
    assert (head.method, head.target, head.headers) == ("GET", "/a", ((b"x-a", b"b"),))


def test_later_request_has_places_of_its_own() -> None:
    text = 'POST /a\n\n{"a": {{ .x | dquote }}}\n### next\n\nGET /b/{{ .x | squote }}\nX-A: {{ .x | squote }}\n'
    first, second = requests(text, x='c"d')
    assert first[1] == b'{"a": "c\\"d"}'
    assert (second[0].target, second[0].headers) == ("/b/c%22d", ((b"x-a", b'c"d'),))


def test_hidden_values_are_shown_in_every_place() -> None:
    text = 'POST /{{ .x | type "password" | squote }}?a={{ .x | squote }}\nX: {{ .x | squote }}\n\n'
    text += '{"a": {{ .x | dquote }}}'
    shown = parse(text).render({"x": "s3cret/"}, ScriptSyntax.HTTP, masked=True).text
    assert shown == 'POST /***?a=***\nX: ***\n\n{"a": "***"}'
    text = 'POST /\nContent-Type: text/plain\n\n{{ .x | type "password" | squote }}'
    assert parse(text).render({"x": "s3cret"}, ScriptSyntax.HTTP, masked=True).text.endswith("***")


def test_functions_after_quoting_leave_nothing_dangerous() -> None:
    ((head, _),) = requests('GET /a?b={{ .x | type "textarea" | squote | html }}', x="c&d=e\n###")
    assert head.target == "/a?b=c%26d%3De%0A%23%23%23"
