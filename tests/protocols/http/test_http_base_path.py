"""The path in REMOTE_URL."""

from __future__ import annotations

import pytest

from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.target.http_base_path import HttpBasePath, is_base_path

ORIGIN = "http://app.internal:3000"


@pytest.mark.parametrize(
    ("target", "expected"),
    [("/", "/api/"), ("/a?b=../c", "/api/a?b=../c"), ("*", "*"), ("/a..b/.c", "/api/a..b/.c"), ("//x", "/api//x"),
     ("/...", "/api/...")],
)  # fmt: skip
def test_the_base_is_put_before_paths(target: str, expected: str) -> None:
    assert HttpBasePath("/api", ORIGIN).request(RequestHead("GET", target, "a")).target == expected
    assert HttpBasePath("", ORIGIN).request(RequestHead("GET", target, "a")).target == target


@pytest.mark.parametrize(
    "target",
    ["/..", "/../admin", "/a/../../admin", "/./a", "/%2e%2e/admin", "/%2E./x", "/a%2f..%2fx", "/..%2fadmin", "/..;/x",
     "/..;a=b/x", "/..\\x", "/\\../x", "/%252e%252e/x", "/%5c..%5cx", "/a/..?b"],
)  # fmt: skip
def test_paths_cannot_leave_the_base(target: str) -> None:
    head = RequestHead("GET", target, "a")
    with pytest.raises(ValueError, match="could leave"):
        HttpBasePath("/api", ORIGIN).request(head)
    assert HttpBasePath("", ORIGIN).request(head) is head


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("location", "/api/login?x", "/login?x"),
        ("location", "/api", "/"),
        ("location", "/api?x", "/?x"),
        ("location", "/apis/login", "/apis/login"),
        ("location", "/other", "/other"),
        ("location", "login", "login"),
        ("location", "http://app.internal:3000/api/login", "http://app.internal:3000/login"),
        ("location", "http://app.internal:3000/api", "http://app.internal:3000/"),
        ("location", "http://other.internal/api/login", "http://other.internal/api/login"),
        ("content-location", "/api/item", "/item"),
        ("set-cookie", "a=/api; Path=/api; HttpOnly", "a=/api; Path=/; HttpOnly"),
        ("set-cookie", "a=1;path=/api/x", "a=1; Path=/x"),
        ("set-cookie", "a=1; Path=/", "a=1; Path=/"),
        ("etag", "/api/x", "/api/x"),
    ],
)
def test_the_base_is_taken_away_from_answers(name: str, value: str, expected: str) -> None:
    head = ResponseHead(200, ((name.encode(), value.encode()),))
    assert HttpBasePath("/api", ORIGIN).response(head).headers == ((name.encode(), expected.encode()),)
    assert HttpBasePath("", ORIGIN).response(head) is head


@pytest.mark.parametrize(
    ("path", "valid"),
    [("", True), ("/a", True), ("/a/b.c/%20", True), ("/", False), ("a", False), ("/a/", False), ("//", False),
     ("/a b", False), ("/a/..", False), ("/%2e", False), ("/a?b", False)],
)  # fmt: skip
def test_valid_bases(path: str, valid: bool) -> None:
    assert is_base_path(path) is valid
