"""Rules about columns in JSON: by the name of a field, its path, and the path of the request."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.http_links import EMAIL, guards, http_link, masking, say
from tests.support.protocols.http_test_frames import Shown, request, response
from tests.support.protocols.wire_contracts import sent_to

from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.rules.masking import Strategy, Strictness
from postern.protocols.httpproxy.json_rows import JsonWalker, rows_maker
from postern.protocols.httpproxy.lineage.httpproxy_lineage import HttpproxyLineage
from postern.protocols.wire_base import Side

DOCUMENT = {
    "users": [
        {"id": 1, "email": "a", "address": {"zip": "x", "geo": [1.5, -2]}, "vip": True},
        {"id": 2, "email": None, "address": {"zip": "y"}, "vip": False},
    ],
    "email": 'q"uo\\te',
    "total": 12345678901234567890123,
}


def shown(
    columns: tuple[str, ...],
    body: object = DOCUMENT,
    *,
    target: str = "/api/users",
    content_type: str = "application/json",
    posts: bytes = b"",
    strategy: Strategy = Strategy.REPLACE,
    strictness: Strictness = Strictness.STRICT,
    size: int = 0,
    piece: int = 40,
    types: tuple[str, ...] = (),
) -> Shown:
    rule = masking(*types, columns=columns, strategy=strategy, strictness=strictness, origins=HttpproxyLineage())
    link = http_link(rule)
    sent = request(target, posts, headers={"accept": "application/json", "content-type": "application/json"})
    assert sent_to(Side.TARGET, say(link, Side.CLIENT, sent))
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = response(data, headers={"content-type": content_type}, piece=piece)
    return Shown(sent_to(Side.CLIENT, say(link, Side.TARGET, answer, size)))


def changed(before: object, after: object, path: str = "") -> set[str]:
    """Return the paths whose values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        assert before.keys() == after.keys()
        return {each for name in before for each in changed(before[name], after[name], f"{path}.{name}".lstrip("."))}
    if isinstance(before, list) and isinstance(after, list):
        assert len(before) == len(after)
        return {each for old, new in zip(before, after, strict=True) for each in changed(old, new, path)}
    return {path} if before != after else set()


@pytest.mark.parametrize("size", [1, 0])
@pytest.mark.parametrize(
    ("column", "paths"),
    [
        ("email", {"users.email", "email"}),
        ("users.email", {"users.email"}),
        ("/api/users.email", {"email"}),
        ("/api/*.users.email", {"users.email"}),
        ("/api/orders.email", set()),
        ("address", {"users.address.zip", "users.address.geo"}),
        ("address.zip", {"users.address.zip"}),
        ("*zip*", {"users.address.zip"}),
        ("vip", {"users.vip"}),
        ("total", {"total"}),
        ("nothing", set()),
    ],
)
def test_rule_masks_fields(column: str, paths: set[str], size: int) -> None:
    answer = shown((column,), size=size)
    assert answer.status == 200
    assert changed(DOCUMENT, json.loads(answer.body)) == paths


@pytest.mark.parametrize("strategy", list(Strategy))
def test_document_stays_valid_with_every_strategy(strategy: Strategy) -> None:
    answer = shown(("users",), strategy=strategy) if strategy is not Strategy.HASH else None
    if answer is not None:
        read = json.loads(answer.body)
        assert read["email"] == DOCUMENT["email"]
        assert EMAIL not in str(read)
        assert {user["email"] for user in read["users"]} <= {None, "****", "a"[:1], "*"} | {
            user["email"] for user in read["users"]
        }


def test_values_are_searched_in_the_other_fields() -> None:
    body = {"a": EMAIL, "n": {EMAIL: 1, "e": "alice.miller\u00e9"}, "secret": "x", "text": f'{{"mail": "{EMAIL}"}}'}
    read = json.loads(shown(("secret",), body, types=("EMAIL_ADDRESS",)).body)
    assert EMAIL not in json.dumps(read)
    assert read["secret"] == "****"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-ndjson", b'{"secret": "x1"}\n{"a": 2, "secret": "x2"}\n'),
        ("application/json-seq", b'\x1e{"secret": "x1"}\n\x1e{"secret": "x2"}\n'),
        ("text/event-stream", b'id: 1\ndata: {"secret": "x1"}\n\ndata: {"secret":\ndata: "x2"}\n\n'),
        ("application/json", b'[{"secret": "x1"}, {"\\u0073ecret": "x2"}]'),
        ("application/json", '[{"secret": "x1"}]'.encode("utf-16")),
    ],
)
def test_other_forms_of_json_are_masked_too(content_type: str, body: bytes) -> None:
    answer = shown(("secret",), body, content_type=content_type)
    assert answer.status == 200
    assert b"x1" not in answer.body
    assert b"x2" not in answer.body
    assert b"****" in answer.body


@pytest.mark.parametrize("strictness", list(Strictness))
@pytest.mark.parametrize(
    ("target", "posts", "content_type", "body"),
    [
        ("/graphql", b'{"query": "{ u { x: email } }"}', "application/json", b'{"data": {"u": {"x": "v"}}}'),
        ("/api", b'{"query": "query { u { x: email } }"}', "application/json", b'{"data": {"u": {"x": "v"}}}'),
        ("/api?query=%7Bu%7Bx:email%7D%7D", b"", "application/json", b'{"data": {"u": {"x": "v"}}}'),
        ("/a/../b", b"", "application/json", b'{"x": "v"}'),
        ("/page", b"", "text/html", b"<p>v</p>"),
        ("/page", b"", "text/plain", b"v"),
    ],
)
def test_unknown_origin_is_refused_by_strict_rules(
    target: str, posts: bytes, content_type: str, body: bytes, strictness: Strictness
) -> None:
    answer = shown(("email",), body, target=target, posts=posts, content_type=content_type, strictness=strictness)
    assert answer.status == (403 if strictness is Strictness.STRICT else 200)


@pytest.mark.parametrize("content_type", ["text/css", "application/javascript", "image/png"])
def test_what_has_no_fields_passes(content_type: str) -> None:
    body = b"\x89PNG\r\n\x1a\n" if content_type == "image/png" else b"a {}"
    assert shown(("email",), body, content_type=content_type).body == body


@pytest.mark.parametrize("body", [b'{"a": 1]', b"{'a': 1}", b'{"a": nul}', b"[" * 600, b'{"a": 1}}'])
def test_broken_json_is_refused(body: bytes) -> None:
    assert shown(("email",), body).status == 403


def test_too_many_fields_are_refused() -> None:
    body = {f"name{'x' * (number % 50)}{chr(97 + number % 26)}{number:04}"[-30:]: 1 for number in range(6000)}
    assert b"too many different fields" in shown(("email",), body, piece=60_000).body


def test_large_document_is_masked_in_parts() -> None:
    rows = [{"id": number, "email": f"user{number}", "n": {"email": "x"}} for number in range(40_000)]
    answer = shown(("/api/users.rows.email",), {"rows": rows}, piece=60_000)
    read = json.loads(answer.body)["rows"]
    assert {row["email"] for row in read} == {"****"}
    assert [row["id"] for row in read] == list(range(40_000))


def test_number_of_rows_is_limited() -> None:
    link = http_link(guards(output=(Rule(RuleType.MAX_ROWS, most=2),)))
    say(link, Side.CLIENT, request("/a"))
    answer = response(b'[{"a": 1}, {"a": 2}, {"a": 3}]', headers={"content-type": "application/json"})
    assert Shown(sent_to(Side.CLIENT, say(link, Side.TARGET, answer))).status == 403


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_rows_without_changes_are_the_document(value: object, indent: int | None, is_ascii: bool) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    rows = rows_maker()(1, data, bytes)
    for column in range(len(rows.columns)):
        rows.replace(column, rows.texts(column))
    assert rows.encode() == data
    for column in range(len(rows.columns)):
        rows.change(column, lambda scalar, old: None)
    json.loads(rows.encode())


def test_walker_continues_in_the_next_part() -> None:
    walker = JsonWalker()
    paths = [
        column.name
        for part in (b'{"a": {"b": 1,', b' "c": [2,', b' {"d": 3}], "123": 4}}')
        for column in walker.walk(part).columns
    ]
    assert paths == ["a.b", "a.c", "a.c.d", "a.(key)", "a.#"]
