"""The listener that a browser comes back to, and what else may knock there."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from postern.cli.login.sign_in_methods import Loopback
from postern.errors import Unauthenticated


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback() as listening:
        yield listening


def come(loopback: Loopback, path: str | None = None, **more: str) -> httpx.Response:
    state = loopback.state.reveal()
    target = path if path is not None else f"/callback?state={state}&code=c0de"
    return httpx.get(f"http://127.0.0.1:{loopback.port}{target}", headers=more, trust_env=False, timeout=60)


def nothing_was_heard(loopback: Loopback) -> bool:
    try:
        loopback.wait(0.05)
    except Unauthenticated as error:
        return "nobody logged in" in error.message
    return False


def test_the_code_is_taken_and_a_page_shown(loopback: Loopback) -> None:
    page = come(loopback)
    assert page.status_code == 200
    assert "Go back to the terminal" in page.text
    assert "c0de" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["cache-control"] == "no-store"
    assert loopback.wait(30).reveal() == "c0de"


def test_an_error_of_the_gateway_is_told(loopback: Loopback) -> None:
    state = loopback.state.reveal()
    page = come(loopback, f"/callback?state={state}&error=access_denied&error_description=%3Cscript%3Enot+you")
    assert "<script>" not in page.text
    with pytest.raises(Unauthenticated, match="not you"):
        loopback.wait(30)


@pytest.mark.parametrize("query", ["code=c0de", "state=&code=c0de", "state=guessed&code=c0de", "state=%FF&code=c0de"])
def test_login_csrf_without_our_state_is_ignored(loopback: Loopback, query: str) -> None:
    assert come(loopback, f"/callback?{query}").status_code == 404
    assert nothing_was_heard(loopback)
    assert come(loopback).status_code == 200  # the right one still comes through
    assert loopback.wait(30).reveal() == "c0de"


def test_parameter_pollution_is_ignored(loopback: Loopback) -> None:
    state = loopback.state.reveal()
    assert come(loopback, f"/callback?state={state}&code=a&code=b").status_code == 404
    assert come(loopback, f"/callback?state={state}&state={state}&code=a").status_code == 404
    assert nothing_was_heard(loopback)


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", ""])
def test_dns_rebinding_by_a_foreign_host_header_is_ignored(loopback: Loopback, host: str) -> None:
    assert come(loopback, Host=host).status_code == 404
    assert nothing_was_heard(loopback)


def test_another_path_or_method_is_ignored(loopback: Loopback) -> None:
    state = loopback.state.reveal()
    for path in ("/", "/favicon.ico", f"/other?state={state}&code=c"):
        assert come(loopback, path).status_code == 404
    posted = httpx.post(f"http://127.0.0.1:{loopback.port}/callback?state={state}&code=c", trust_env=False)
    assert posted.status_code == 501
    assert nothing_was_heard(loopback)


def test_a_second_request_changes_nothing(loopback: Loopback) -> None:
    assert come(loopback).status_code == 200
    state = loopback.state.reveal()
    assert come(loopback, f"/callback?state={state}&code=another").status_code == 404
    assert loopback.wait(30).reveal() == "c0de"


def test_of_many_at_once_one_is_taken(loopback: Loopback) -> None:
    state = loopback.state.reveal()
    with ThreadPoolExecutor(8) as threads:
        paths = [f"/callback?state={state}&code=c{number}" for number in range(8)]
        pages = list(threads.map(lambda path: come(loopback, path).status_code, paths))
    assert sorted(pages) == [200, *[404] * 7]


def test_silent_connections_do_not_keep_the_browser_out(loopback: Loopback) -> None:
    silent = [socket.create_connection(("127.0.0.1", loopback.port)) for _ in range(10)]
    try:
        assert come(loopback).status_code == 200
    finally:
        for one in silent:
            one.close()


@pytest.mark.slow
def test_connections_are_bounded(loopback: Loopback) -> None:
    before = threading.active_count()
    opened = [socket.create_connection(("127.0.0.1", loopback.port)) for _ in range(60)]
    try:
        time.sleep(0.3)
        assert threading.active_count() - before <= 16
    finally:
        for one in opened:
            one.close()


def test_nobody_listens_afterwards() -> None:
    with Loopback() as loopback:
        port = loopback.port
        assert loopback.redirect.startswith(f"http://127.0.0.1:{port}/callback?state=")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), 1):
        pass


def test_only_this_machine_can_come(loopback: Loopback) -> None:
    assert loopback._server.server_address[0] == "127.0.0.1"
