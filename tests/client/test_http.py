from __future__ import annotations

import json
import socket
from collections.abc import Callable

import httpx
import pytest

from postern.client.client import Client
from postern.client.client_http import Http
from postern.domain.secret import Secret
from postern.errors import (
    Conflict,
    Denied,
    Invalid,
    Malformed,
    NotFound,
    PosternError,
    TooMany,
    Unauthenticated,
    Unavailable,
)


def answering(handler: Callable[[httpx.Request], httpx.Response], token: str | None = "t0ken") -> Http:
    return Http("http://gateway", Secret(token) if token else None, transport=httpx.MockTransport(handler))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Malformed),
        (401, Unauthenticated),
        (403, Denied),
        (404, NotFound),
        (409, Conflict),
        (422, Invalid),
        (429, TooMany),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
def test_each_status_is_its_error_with_the_apis_message(status: int, kind: type[PosternError]) -> None:
    http = answering(lambda _: httpx.Response(status, json={"message": "name: taken"}))
    with pytest.raises(kind) as raised:
        http.call("GET", "/connections")
    assert type(raised.value) is kind
    assert raised.value.message == "name: taken"


def test_an_error_without_our_body_still_says_something() -> None:
    http = answering(lambda _: httpx.Response(502, text="<html>bad gateway</html>"))
    with pytest.raises(Unavailable, match="http://gateway answered 502 Bad Gateway"):
        http.call("GET", "/connections")


def test_a_page_that_is_not_our_api_is_said() -> None:
    http = answering(lambda _: httpx.Response(200, text="<html>welcome</html>"))
    with pytest.raises(Unavailable, match="not from Postern's API"):
        http.call("GET", "/connections")


def test_a_gateway_that_is_not_there_is_said_with_what_to_do() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(Unavailable, match=rf"127.0.0.1:{port} cannot be reached.*gateway is running"):
        Http(f"http://127.0.0.1:{port}").call("GET", "/healthz")


@pytest.mark.parametrize("address", ["gateway", "ftp://gateway", "http://[::1"])
def test_an_address_that_is_none_is_invalid(address: str) -> None:
    with pytest.raises(Invalid, match="address"):
        Http(address).call("GET", "/healthz")


def test_a_ca_that_is_none_is_invalid() -> None:
    with pytest.raises(Invalid, match="PEM"):
        Http("https://gateway", authority="nonsense")


def test_the_token_is_sent_and_the_names_are_quoted() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204)

    client = Client(answering(handler))
    client.connections.delete("a/b?c")
    assert seen[0].headers["Authorization"] == "Bearer t0ken"
    assert seen[0].url.raw_path == b"/api/connections/a%2Fb%3Fc"


def test_login_takes_the_token_from_the_header() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content) == {"email": "a@example.com", "password": "p"}
        assert "Authorization" not in request.headers
        return httpx.Response(200, json={"status": "ok"}, headers={"Token": "fresh"})

    assert Client(answering(handler, token=None)).login("a@example.com", Secret("p")).reveal() == "fresh"


def test_filters_that_are_none_are_not_sent() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert str(request.url.query, "ascii") == "connection=shop&limit=5"
        return httpx.Response(200, json={"data": [], "total": 0, "has_next_page": False})

    assert Client(answering(handler)).sessions.list(connection="shop", user=None, limit=5)["total"] == 0
