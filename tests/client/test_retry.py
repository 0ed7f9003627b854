"""A write whose connection breaks, at a real API behind a proxy that cuts it."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.promises import until
from tests.support.served import PASSWORD, ROOT, Served, served

from postern.client.client import Client
from postern.client.client_http import Http
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Conflict, Unavailable


@pytest.fixture
def gate(tmp_path: Path, migrated: Path) -> Iterator[Served]:
    with served(tmp_path, migrated) as running:
        yield running


class Cut:
    """One request on each connection. The first `cuts` connections are cut: before the request is passed on, or else
    after the API has answered it and before the client hears of it."""

    def __init__(self, cuts: int, *, before: bool) -> None:
        self.left = cuts
        self.before = before
        self.requests: list[bytes] = []

    def serve(self, client: socket.socket, api: tuple[str, int]) -> None:
        request = _whole(client)
        if not request:
            return
        self.requests.append(request)
        cut = self.left > 0
        self.left -= cut
        if cut and self.before:
            return
        with socket.create_connection(api, timeout=60) as upstream:
            upstream.sendall(request)
            answer = _whole(upstream)
        if not cut:
            # One request on each connection, and the client knows it: it does not meet our end of it half way.
            client.sendall(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

    @property
    def keys(self) -> list[bytes]:
        return [_header(request, b"idempotency-key") for request in self.requests]


def _whole(peer: socket.socket) -> bytes:
    """A request or an answer, its body measured by Content-Length."""
    peer.settimeout(10)
    data = b""
    while chunk := peer.recv(65536):
        data += chunk
        head, separator, body = data.partition(b"\r\n\r\n")
        if separator and len(body) >= int(_header(head, b"content-length") or 0):
            break
    return data


def _header(message: bytes, name: bytes) -> bytes:
    lines = message.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    found = dict(line.lower().split(b": ", 1) for line in lines)
    return found.get(name, b"")


@contextmanager
def behind(gate: Served, cut: Cut) -> Iterator[str]:
    """Another address of the API."""
    place = urlsplit(gate.url)
    assert place.hostname is not None
    assert place.port is not None
    api = (place.hostname, place.port)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                cut.serve(self.request, api)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(60)


def logged_in(gate: Served) -> Secret:
    with Http(gate.url) as http:
        return Client(http).login(ROOT, Secret(PASSWORD))


def make_group(url: str, token: Secret, name: str = "dbas", **more: Any) -> Any:
    with Http(url, token, **more) as http:
        return Client(http).collection("users", "groups").create({"name": name})


def groups(gate: Served) -> list[str]:
    found = gate.run(gate.services.groups.find(gate.root, Page()))
    return [one.name for one in found.items]


@pytest.mark.parametrize("before", [True, False])
def test_a_write_that_broke_off_is_carried_out_once(gate: Served, before: bool) -> None:
    cut, token = Cut(1, before=before), logged_in(gate)
    with behind(gate, cut) as url:
        assert make_group(url, token)["name"] == "dbas"
    assert groups(gate).count("dbas") == 1
    assert len(cut.keys) == 2
    assert cut.keys[0] == cut.keys[1] != b""


def test_each_write_has_a_key_of_its_own_and_reads_have_none(gate: Served) -> None:
    cut, token = Cut(0, before=False), logged_in(gate)
    with behind(gate, cut) as url:
        for name in ("one", "two"):
            make_group(url, token, name)
        with pytest.raises(Conflict, match="already"):  # the same body in a new request is not a retry
            make_group(url, token, "two")
        with Http(url, token) as http:
            Client(http).userinfo()
    assert len(set(cut.keys)) == 4
    assert cut.keys[3] == b""


def test_a_gateway_that_cuts_twice_is_unavailable(gate: Served) -> None:
    cut, token = Cut(2, before=True), logged_in(gate)
    with behind(gate, cut) as url, pytest.raises(Unavailable, match=r"was lost.*unknown"):
        make_group(url, token)
    assert len(cut.requests) == 2
    assert "dbas" not in groups(gate)


def test_a_login_is_never_sent_twice(gate: Served) -> None:
    cut = Cut(1, before=False)
    with behind(gate, cut) as url, Http(url) as http, pytest.raises(Unavailable, match="was lost"):
        Client(http).login(ROOT, Secret(PASSWORD))
    assert cut.keys == [b""]


def test_a_logout_whose_answer_was_lost_does_not_say_that_nobody_was_logged_in(gate: Served) -> None:
    cut, token = Cut(1, before=False), logged_in(gate)
    with behind(gate, cut) as url, Http(url, token) as http, pytest.raises(Unavailable, match="was lost"):
        Client(http).authentication.logout()
    assert len(cut.requests) == 2


def test_a_write_that_is_under_way_is_waited_for(gate: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    token = logged_in(gate)
    begun, waits = threading.Event(), list[float]()
    create = gate.services.groups.create

    async def slow(*arguments: Any) -> Any:
        begun.set()
        await until(lambda: waits)
        return await create(*arguments)

    class Impatient(Cut):
        """Cuts while the API is at work."""

        def serve(self, client: socket.socket, api: tuple[str, int]) -> None:
            if self.requests:
                super().serve(client, api)
                return
            self.requests.append(_whole(client))
            upstream = socket.create_connection(api, timeout=60)
            held.append(upstream)
            upstream.sendall(self.requests[0])
            assert begun.wait(60)

    held: list[socket.socket] = []
    monkeypatch.setattr(gate.services.groups, "create", slow)
    monkeypatch.setattr("postern.client.client_http.time.sleep", waits.append)
    with behind(gate, Impatient(0, before=False)) as url:
        assert make_group(url, token)["name"] == "dbas"
    for one in held:
        one.close()
    assert waits
    assert groups(gate).count("dbas") == 1
