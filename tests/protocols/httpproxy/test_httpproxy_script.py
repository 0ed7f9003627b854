"""Scripts of requests: how they are read, sent, bound and ended."""

from __future__ import annotations

import pytest
from tests.support.protocols.http_test_frames import response, sent_requests
from tests.support.protocols.query_contracts import check_script

from postern.domain.sessions.script_parameters import BoundScript, ParameterValue, Placeholder, text_of
from postern.errors import Invalid
from postern.protocols.http import http_frames as f
from postern.protocols.http.wire.http_wire import HttpWire
from postern.protocols.httpproxy.dialect.httpproxy_splitting import split_requests
from postern.protocols.httpproxy.httpproxy_dialect import HttpproxyDialect
from postern.protocols.httpproxy.httpproxy_script import HttpproxyScript
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.script_placeholders import find_placeholders

SCRIPT = """# list them
GET /users?a=1
Accept: application/json

### make one
// with a comment
POST /users HTTP/1.1
X-A: b
# not a header

{"name": "Al"}

###
/plain
"""


def sent(script: HttpproxyScript) -> list[tuple[str, str, dict[str, str], bytes]]:
    return [
        (head.method, head.target, {name.decode(): value.decode() for name, value in head.headers}, body)
        for request in script.requests()
        for head, body in sent_requests(request.data)
    ]


def test_requests_are_read() -> None:
    json = {"x-a": "b", "content-type": "application/json"}
    assert sent(HttpproxyScript(SCRIPT)) == [
        ("GET", "/users?a=1", {"accept": "application/json"}, b""),
        ("POST", "/users", json, b'{"name": "Al"}'),
        ("GET", "/plain", {}, b""),
    ]


def test_places_and_texts_are_those_of_the_script() -> None:
    requests = HttpproxyScript(SCRIPT).requests()
    assert [SCRIPT[each.start : each.end] for each in requests] == [
        SCRIPT[start:end] for start, end in split_requests(SCRIPT).spans
    ]
    assert SCRIPT[requests[0].start : requests[0].end] == "GET /users?a=1\nAccept: application/json"
    assert requests[1].text == 'POST /users\nX-A: b\nContent-Type: application/json\n\n{"name": "Al"}'


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "it has no request"),
        ("###\n# nothing\n", "it has no request"),
        ("hello world and more", "line 1: this is not a request"),
        ("GET http://other/x", "line 1: write the path alone"),
        ("GET /a\nno header", "line 2: this is not a header"),
        ("GET /a\nHost: b", "'host' is set by the gateway"),
        ("GET /a\nTransfer-Encoding: chunked", "set by the gateway"),
        ("GET /\N{LATIN SMALL LETTER E WITH ACUTE}", "in ASCII"),
    ],
)
def test_script_that_is_none_is_invalid(script: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        HttpproxyScript(script).start()


@pytest.mark.parametrize(
    ("answers", "count", "code"),
    [
        ([response(b"x"), response(b"", status=204, number=2), response(b"", status=302, number=3)], 3, 0),
        ([response(b"x", status=404)], 1, 1),
        ([response(b"x"), response(b"y", status=500, number=2)], 2, 1),
        ([f.failed_frame(1, f.TargetFailure("timeout", "away"))], 1, 1),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_first_failure_ends_the_script(answers: list[bytes], count: int, code: int, size: int) -> None:
    script = HttpproxyScript(SCRIPT)
    sent_frames = script.start()
    for answer in answers:
        for at in range(0, len(answer), size):
            sent_frames += script.feed(answer[at : at + size])
    assert len(sent_requests(sent_frames)) == count
    assert (script.finished, script.exit_code(), script.leaves) == (True, code, True)


def bound(text: str, **values: ParameterValue) -> HttpproxyScript:
    places = find_placeholders(text, ScriptSyntax.HTTP)
    assert {place.name for place in places} == set(values)
    return HttpproxyScript(
        BoundScript(
            text,
            tuple(
                Placeholder(place.start, place.end, place.name, text_of(values[place.name]), values[place.name])
                for place in places
            ),
        )
    )


ATTACK = "a/../b?c&d=e#f %\r\nX: y\r\n\r\n### \nDELETE /x"


@pytest.mark.parametrize(
    ("text", "value", "target", "headers", "body"),
    [
        ("GET /users/:v/x", "Al B", "/users/Al%20B/x", {}, b""),
        ("GET /users/:v", ATTACK, None, {}, b""),
        ("GET /a?x=:v&y=1", "1&y=2", "/a?x=1%26y%3D2&y=1", {}, b""),
        ("GET /a?x=:v", ATTACK, None, {}, b""),
        ("GET /a\nX-A: :v", 'Al "B"', "/a", {"x-a": 'Al "B"'}, b""),
        ('POST /a\n\n{"a": :v, "b": ":v"}', 'x", "c": "1', "/a", None, b'{"a": "x\\", \\"c\\": \\"1", "b": ":v"}'),
        ("POST /a\n\n[:v]", None, "/a", None, b"[null]"),
        ("POST /a\n\n[1, :v]", 1.5, "/a", None, b"[1, 1.5]"),
        ("POST /a\n\n[1, :v]", True, "/a", None, b"[1, true]"),
        (
            "POST /a\nContent-Type: application/x-www-form-urlencoded\n\nx=:v&y=1",
            "1&y=2 +",
            "/a",
            None,
            b"x=1%26y%3D2+%2B&y=1",
        ),
    ],
)  # fmt: skip
def test_value_cannot_change_the_request(
    text: str, value: ParameterValue, target: str | None, headers: dict[str, str] | None, body: bytes
) -> None:
    (request,) = sent(bound(text, v=value))
    if target is not None:
        assert request[1] == target
    assert request[1].count("/") == text.splitlines()[0].count("/")
    assert request[1].count("&") == text.splitlines()[0].count("&")
    if headers is not None:
        assert request[2] == headers
    assert request[3] == body


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("GET /a/:v", ".."),
        ("GET /a\nX-A: :v", "a\r\nX-B: c"),
        ("POST /a\nContent-Type: text/plain\n\nx=:v", "a"),
    ],
)
def test_value_that_has_no_form_is_invalid(text: str, value: str) -> None:
    with pytest.raises(Invalid, match="parameters: "):
        bound(text, v=value).requests()


def test_contract_of_scripts_is_kept() -> None:
    text = "GET /users?a=1\nX-A: b"
    check_script(
        HttpproxyScript,
        lambda: HttpWire(HttpproxyDialect(), "app.test:80"),
        text,
        answer=response(b"hello"),
        failing=response(b"no", status=404),
        asked=b'"GET","/users?a=1","app.test:80"',
    )
