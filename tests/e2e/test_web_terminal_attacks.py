"""Attacks on terminals in browsers: other sites, stolen and missing secrets, hostile frames, floods, slow readers."""

from __future__ import annotations

import asyncio
import json
import os
import socket as sockets
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
from tests.e2e.test_commands import TERMINAL, Opened, command, talk
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.promises import until, wait_until
from tests.support.terminals import SIZE, SUBPROTOCOL, ApiProcess, Browser, Terminal, add_user
from websockets.exceptions import ConnectionClosed, InvalidStatus

from postern.api.browser.cookies import csrf_token_of
from postern.api.terminals.terminal_limiter import MOST_PER_USER
from postern.domain.secret import Secret
from postern.domain.sessions.session import SessionStatus
from postern.domain.targets.connection import Toggle
from postern.protocols.terminal import terminal_frames as m
from postern.services.targets.terminal_attestations import TerminalAttestations
from postern.transport.tunnel_dialling import TunnelAddress, open_stream
from postern.transport.tunnel_messages import Refused
from postern.transport.websocket_bounds import MAX_MESSAGE
from postern.wiring import tls

ON: dict[str, Any] = {"access_mode_web_terminal": Toggle.ENABLED}
MIB = 1 << 20


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    running = Gateway(gateway_commands=True, api_port=free_port(), control_port=free_port())
    try:
        running.start()
        add_user(running, "ann@example.com", "crew")
        add_user(running, "eve@example.com", "crew")
        command(running, "shell", "bash", "--norc", **ON)
        command(running, "sleeper", "sleep", "3600", **ON)
        command(running, "printer", "sh", "-c", "stty -echo; yes 0123456789abcdef", **ON)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> Iterator[ApiProcess]:
    process = ApiProcess(gateway)
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def ann(api: ApiProcess) -> Browser:
    return Browser(api, "ann@example.com")


@pytest.fixture(scope="module")
def eve(api: ApiProcess) -> Browser:
    return Browser(api, "eve@example.com")


def denied(browser: Browser, connection: str = "shell", **handshake: Any) -> tuple[int, str]:
    """Status and message of a handshake that fails."""
    with pytest.raises(InvalidStatus) as caught:
        browser.connect(connection, **handshake)
    response = caught.value.response
    body = bytes(response.body or b"")
    return response.status_code, json.loads(body)["message"] if body else ""


def closing(browser: Browser, *messages: str | bytes, connection: str = "shell", **handshake: Any) -> dict[str, Any]:
    """The last message of a terminal that is sent these messages."""
    with browser.connect(connection, **handshake) as socket:
        terminal = Terminal(socket)
        with suppress(ConnectionClosed):
            for message in messages:
                socket.send(message)
        return terminal.until_closed(30)


def opening(browser: Browser, **fields: Any) -> str:
    return json.dumps({"csrf_token": browser.csrf, **SIZE, **fields})


# Other sites, and missing or stolen secrets


@pytest.mark.parametrize(
    "origin", [None, "https://evil.example", "null", "http://localhost:1", "http://localhost.evil.example", "file://"]
)
def test_attack_page_of_another_site_gets_no_socket(gateway: Gateway, ann: Browser, origin: str | None) -> None:
    """Cross-site WebSocket hijacking: the browser would send the cookie."""
    before = len(gateway.sessions())
    status, message = denied(ann, origin=origin)
    assert status == 403
    assert "Origin" in message or "another site" in message
    assert len(gateway.sessions()) == before


def test_attack_second_origin_and_cross_site_metadata_are_refused(ann: Browser) -> None:
    assert denied(ann, headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    request = handshake(ann, "shell", extra=f"Origin: {ann.api.url}\r\nOrigin: https://evil.example\r\n")
    assert answer_to(ann.api, request).split(b" ")[1] in (b"400", b"403")


@pytest.mark.parametrize("names", [[], ["postern.terminal.v0"], [SUBPROTOCOL, "other"]])
def test_attack_other_subprotocols_are_refused(ann: Browser, names: list[str]) -> None:
    assert denied(ann, subprotocols=names)[0] == 400


@pytest.mark.parametrize(
    ("cookie", "headers", "code"),
    [
        ("", {}, 4401),
        ("postern=made-up", {}, 4401),
        ("other=1", {}, 4401),
        ("", {"Authorization": "Bearer {token}"}, 4400),
        ("", {"Api-Key": "xapi-made-up"}, 4400),
        ("postern={token}", {"Authorization": "Bearer {token}"}, 4400),
    ],
)
def test_attack_only_the_cookie_authenticates(ann: Browser, cookie: str, headers: dict[str, str], code: int) -> None:
    token = next(iter(ann.http.cookies.values()))
    filled = {name: value.format(token=token) for name, value in headers.items()}
    closed = closing(ann, opening(ann), cookie=cookie.format(token=token), headers=filled)
    assert closed["code"] == code


def test_attack_token_of_an_agent_or_a_command_line_in_the_cookie(gateway: Gateway, ann: Browser) -> None:
    """A login of a command line can be used as a cookie, but is not a browser's: the worker denies it."""
    token = gateway.token
    first = json.dumps({"csrf_token": csrf_token_of(token), **SIZE})
    with ann.connect("shell", cookie=f"postern={token.reveal()}") as socket:
        terminal = Terminal(socket)
        socket.send(first)
        assert "login of a browser" in terminal.until_closed()["message"]


def test_attack_socket_without_the_csrf_token(ann: Browser, eve: Browser) -> None:
    assert closing(ann, opening(ann, csrf_token=""))["code"] == 4403
    assert closing(ann, opening(ann, csrf_token=eve.csrf))["code"] == 4403
    assert closing(ann, opening(ann, csrf_token="ü"))["code"] == 4403
    assert closing(ann, json.dumps(SIZE))["code"] == 4422


def test_attack_csrf_token_of_an_earlier_login_of_the_same_user(api: ApiProcess, ann: Browser) -> None:
    assert closing(ann, opening(Browser(api, "ann@example.com")))["code"] == 4403


@pytest.mark.parametrize(
    "message",
    [
        "",
        "null",
        "[]",
        "{",
        '{"columns": 1' + "0" * 5_000 + "}",
        "[" * 50_000,
        b"\x02\x00\x00\x00\x01x",
    ],
)
def test_attack_first_message_that_is_no_request(ann: Browser, message: str | bytes) -> None:
    assert closing(ann, message)["code"] in (4400, 4422)


@pytest.mark.parametrize(
    "fields",
    [
        {"columns": 0},
        {"columns": 10_001},
        {"columns": -1},
        {"columns": 1.5},
        {"columns": True},
        {"rows": "20"},
        {"name": "x" * 65},
        {"arguments": ["x\0y"]},
        {"arguments": "ls"},
        {"duration": -5},
        {"reason": "x" * 100_000},
        {"tracker_fields": {str(number): "x" for number in range(1_000)}},
        {"unknown": 1},
    ],
)
def test_attack_values_out_of_range_open_nothing(gateway: Gateway, ann: Browser, fields: dict[str, Any]) -> None:
    before = len(gateway.sessions())
    assert closing(ann, opening(ann, **fields))["code"] in (4400, 4422)
    assert len(gateway.sessions()) == before


def test_attack_silent_socket_is_closed_after_five_seconds(ann: Browser) -> None:
    begun = time.monotonic()
    closed = closing(ann)
    assert closed["code"] == 4408
    assert 4 < time.monotonic() - begun < 30


def test_attack_connection_of_another_organisation_and_odd_names(ann: Browser) -> None:
    for name in ("nothing-here", str(uuid4()), "%2e%2e", "x" * 2_000, "%F0%9F%92%A9"):
        assert closing(ann, opening(ann), connection=name)["code"] == 4404


def test_attack_upgrade_of_other_addresses_is_refused(api: ApiProcess, ann: Browser) -> None:
    for path in ("/", "/api/userinfo", "/api/connections/shell", "/api/connections/a/b/terminal", "/api/%00"):
        request = handshake(ann, "shell").replace(b"/api/connections/shell/terminal", path.encode())
        assert answer_to(api, request).split(b" ")[1] in (b"403", b"404", b"400"), path


def test_attack_command_line_cannot_pretend_to_be_a_browser_elsewhere(gateway: Gateway, ann: Browser) -> None:
    """The address would be in reviews and in the session. Only the gateway's processes can vouch for one."""
    token = Secret(next(iter(ann.http.cookies.values())))
    attestations = TerminalAttestations(gateway.stores.access)
    real = gateway.call(attestations.issue(token, "10.0.0.1")).reveal()
    of_other = gateway.call(attestations.issue(gateway.token, "10.0.0.2")).reveal()
    browsers: list[Any] = [
        {"address": "10.0.0.2", "attestation": real},
        {"address": "10.0.0.2", "attestation": of_other},
        {"address": "10.0.0.2", "attestation": ""},
        {"address": "10.0.0.2", "attestation": "ü"},
        {"address": 5, "attestation": real},
        {"attestation": real},
        [],
        "yes",
        True,
    ]
    for browser in browsers:
        request = {"connect": "shell", "terminal": TERMINAL, "browser": browser}
        with pytest.raises(Refused):
            asyncio.run(opened_once(gateway, token, request))
    known = {"address": "10.0.0.1", "attestation": real}
    with pytest.raises(Refused):  # a browser opens terminals only
        asyncio.run(opened_once(gateway, token, {"connect": "shell", "browser": known}))


async def opened_once(gateway: Gateway, token: Secret, request: dict[str, Any]) -> None:
    address = TunnelAddress(
        f"wss://localhost:{gateway.settings.tunnel_port}", tls.material(gateway.settings).authority.read_text()
    )
    async with open_stream(address, token, request, asyncio.Protocol()):
        pass


def test_attack_tunnel_without_a_browser_needs_no_web_terminal_but_connect(gateway: Gateway) -> None:
    """The switch is about browsers. A command line is admitted as ever, and its session says what it is."""
    command(gateway, "cli-only", "bash")

    async def work(opened: Opened) -> None:
        opened.type("exit\r")
        await opened.ends()

    talk(gateway, "cli-only", work)
    assert "web_terminal" not in gateway.newest_finished("cli-only").metadata


# Frames


@pytest.mark.parametrize(
    "data",
    [
        m.START_FRAME,
        m.exit_frame(0),
        m.waits(False),
        m.frame(m.STDOUT, b"forged output"),
        m.frame(m.STDERR, b"forged output"),
        m.frame(0, b""),
        m.frame(255, b"x"),
        m.frame(m.RESIZE, b"\0"),
        m.frame(m.RESIZE, b"\0" * 5),
        m.frame(m.SIGNAL, b"SEGV"),
        m.frame(m.SIGNAL, b""),
        m.frame(m.CREDIT, b""),
        m.frame(m.CREDIT, b"\xff" * 5),
        m.frame(m.STDIN, b"cut off")[:-1],
        b"\x02",
        b"\x02\xff\xff\xff\xff",
        m.frame(m.STDIN, b"x") + b"\x02",
    ],
    ids=str,
)
def test_attack_hostile_frame_ends_the_terminal_and_its_session(gateway: Gateway, ann: Browser, data: bytes) -> None:
    with ann.terminal("sleeper") as terminal:
        wait_until(lambda: gateway.sessions(connection="sleeper", status=SessionStatus.OPEN))
        terminal.socket.send(data)
        assert terminal.until_closed()["code"] == 4400
    assert gateway.newest_finished("sleeper").metadata["end_reason"] in ("client_closed", "target_closed")


def test_attack_text_after_the_first_message(ann: Browser) -> None:
    with ann.terminal("sleeper") as terminal:
        terminal.socket.send("text")
        assert terminal.until_closed()["code"] == 4400


def test_attack_message_larger_than_the_limit(ann: Browser) -> None:
    with ann.terminal("sleeper") as terminal:
        with suppress(ConnectionClosed):
            terminal.socket.send(m.frame(m.STDIN, b"x" * (MAX_MESSAGE + 1)))
        while terminal.receive():
            pass
        assert terminal.close_frame is not None
        assert terminal.close_frame.code == 1009


def test_attack_frames_within_the_input_are_keys(ann: Browser) -> None:
    with ann.terminal("shell") as terminal:
        terminal.send(m.frame(m.STDIN, m.signal("KILL") + m.STDIN_END_FRAME))
        terminal.type("\x15echo st''ill\r")
        terminal.shows("still")
        assert terminal.exit is None


# Floods, and browsers that read slowly


def test_slow_page_gets_no_more_than_its_window_and_everything_later(
    gateway: Gateway, api: ApiProcess, ann: Browser
) -> None:
    with ann.terminal("printer", has_credit=False) as terminal:
        terminal.keeps = False
        terminal.until(lambda: terminal.size >= m.BROWSER_WINDOW)
        before, worker = api.resident(), gateway.worker.resident()
        with suppress(TimeoutError):
            while terminal.receive(2):
                pass
        assert terminal.size <= m.BROWSER_WINDOW + m.MAX_PAYLOAD
        assert api.resident() - before < 16 * MIB
        assert gateway.worker.resident() - worker < 32 * MIB
        seen = terminal.size
        for _ in range(3):  # more credit than there is output counts as the whole window, and no more
            terminal.send(m.credit(0xFFFFFFFF))
        terminal.until(lambda: terminal.size >= seen + m.BROWSER_WINDOW)
        with suppress(TimeoutError):
            while terminal.receive(1):
                pass
        assert terminal.size <= seen + 3 * (m.BROWSER_WINDOW + m.MAX_PAYLOAD)


def test_page_with_credit_gets_a_flood_of_output_whole(gateway: Gateway, api: ApiProcess, ann: Browser) -> None:
    command(gateway, "counter", "sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' x", **ON)
    with ann.terminal("counter") as terminal:
        terminal.keeps = False
        before = api.resident()
        terminal.until_closed(120)
        assert terminal.exit == m.Exit(0, "")
        assert terminal.size == 30_000_000 + len(m.exit_frame(0)) - m.HEADER
        assert api.resident() - before < 32 * MIB


def test_attack_browser_that_reads_nothing_fills_no_memory(gateway: Gateway, api: ApiProcess, ann: Browser) -> None:
    """It returns credit for output that it never reads."""
    with raw_terminal(ann, "printer") as socket:
        before = api.resident()
        socket.settimeout(2)
        with suppress(TimeoutError, ConnectionError):
            for _ in range(200_000):
                socket.sendall(masked(0x2, m.credit(m.BROWSER_WINDOW)))
        assert api.resident() - before < 32 * MIB
        assert gateway.worker.running
    gateway.newest_finished("printer")


def test_attack_flood_of_input_to_a_program_that_reads_nothing(gateway: Gateway, api: ApiProcess, ann: Browser) -> None:
    with raw_terminal(ann, "sleeper") as socket:
        before, worker = api.resident(), gateway.worker.resident()
        socket.settimeout(2)
        message, sent, deadline = masked(0x2, m.frame(m.STDIN, b"x" * 65_000)), 0, time.monotonic() + 10
        with suppress(TimeoutError, ConnectionError):
            while sent < 200 * MIB and time.monotonic() < deadline:
                socket.sendall(message)
                sent += len(message)
        assert api.resident() - before < 32 * MIB
        assert gateway.worker.resident() - worker < 64 * MIB
    gateway.newest_finished("sleeper")


def test_attack_floods_of_pings_and_tiny_messages_fill_no_memory(api: ApiProcess, ann: Browser) -> None:
    with raw_terminal(ann, "sleeper") as socket:
        before = api.resident()
        socket.settimeout(2)
        for message in (masked(0x9, b""), masked(0x9, b"x" * 125), masked(0xA, b""), masked(0x2, b"")):
            with suppress(TimeoutError, ConnectionError):
                for _ in range(200):
                    socket.sendall(message * 1_000)
        assert api.resident() - before < 32 * MIB
    assert api.alive()


def test_attack_endless_empty_fragments_are_cut_off(api: ApiProcess, ann: Browser) -> None:
    """No limit of bytes counts them."""
    with raw_terminal(ann, "sleeper") as socket:
        socket.sendall(masked(0x2, b"", final=False))
        socket.settimeout(20)
        with suppress(ConnectionError):
            for _ in range(100):
                socket.sendall(masked(0x0, b"", final=False) * 1_000)
        assert b"fragments" in read_all(socket)
    assert api.alive()


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">BB", 0x82, 0x05) + b"naked",  # not masked
        struct.pack(">BB", 0xF2, 0x80) + b"\0\0\0\0",  # reserved bits
        struct.pack(">BB", 0x83, 0x80) + b"\0\0\0\0",  # reserved opcode
        struct.pack(">BBQ", 0x82, 0xFF, 1 << 62) + b"\0\0\0\0",  # a length of 4 EiB
        struct.pack(">BB", 0x09, 0x80) + b"\0\0\0\0",  # fragmented control frame
        struct.pack(">BBH", 0x89, 0xFE, 200) + b"\0\0\0\0" + b"x" * 200,  # long control frame
        struct.pack(">BB", 0x80, 0x80) + b"\0\0\0\0",  # continuation of nothing
        struct.pack(">BB", 0x81, 0x82) + b"\0\0\0\0" + b"\xff\xfe",  # text that is not UTF-8
        struct.pack(">BB", 0x88, 0x81) + b"\0\0\0\0" + b"x",  # close frame of one byte
        struct.pack(">BB", 0x88, 0x82) + b"\0\0\0\0" + b"\0\1",  # close code 1
    ],
    ids=str,
)
def test_attack_broken_websocket_frames_end_the_terminal(
    gateway: Gateway, api: ApiProcess, ann: Browser, bad: bytes
) -> None:
    with raw_terminal(ann, "sleeper") as socket:
        socket.sendall(bad)
        socket.settimeout(20)
        read_all(socket)
    gateway.newest_finished("sleeper")
    assert api.alive()


@pytest.mark.parametrize(
    "change",
    [
        (b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 12"),
        (b"Sec-WebSocket-Key: ", b"X-Key: "),
        (b"Sec-WebSocket-Key: ", b"Sec-WebSocket-Key: !"),
        (b"Cookie: ", b"Cookie: " + b"a=" + b"x" * 9_000 + b"; "),
        (b"\r\n\r\n", b"".join(b"\r\nX-%d: y" % number for number in range(500)) + b"\r\n\r\n"),
        (b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello"),
        (b"GET ", b"POST "),
    ],
)
def test_attack_broken_handshakes_are_answered_or_cut_off(
    api: ApiProcess, ann: Browser, change: tuple[bytes, bytes]
) -> None:
    request = handshake(ann, "shell", extra=f"Origin: {api.url}\r\n").replace(*change)
    answer = answer_to(api, request)
    assert not answer or answer.split(b" ")[1] in (b"400", b"403", b"405", b"426", b"431", b"101"), answer[:200]
    assert api.alive()
    assert "Traceback" not in api.log()


def test_attack_frames_before_the_handshake_is_answered(gateway: Gateway, api: ApiProcess, ann: Browser) -> None:
    before = len(gateway.sessions())
    request = handshake(ann, "shell", extra=f"Origin: {api.url}\r\n")
    early = request + masked(0x1, json.dumps({"csrf_token": "guess", **SIZE}).encode()) * 50
    answer_to(api, early)
    assert len(gateway.sessions()) == before
    assert api.alive()


def test_attack_terminals_of_one_user_are_limited_and_others_are_served(
    gateway: Gateway, ann: Browser, eve: Browser
) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_PER_USER):
            stack.enter_context(eve.terminal("sleeper"))
        closed = closing(eve, opening(eve), connection="sleeper")
        assert closed["code"] == 4429
        assert f"{MOST_PER_USER} terminals" in closed["message"]
        stack.enter_context(ann.terminal("sleeper"))
    gateway.all_closed()
    with eve.terminal("sleeper"):
        pass
    gateway.all_closed()


def test_attack_many_sockets_without_a_login_hold_nothing(api: ApiProcess, ann: Browser) -> None:
    for _ in range(100):
        assert closing(ann, cookie="x=y")["code"] == 4401
    wait_until(lambda: descriptors(api) < 200)


def test_attack_abandoned_handshakes_leave_nothing_open(gateway: Gateway, api: ApiProcess, ann: Browser) -> None:
    """Pages that are closed while the stream to the worker is opened."""
    before = descriptors(api)
    for _ in range(30):
        socket = ann.connect("sleeper")
        # A user has 20 terminals at most; while those before are not closed yet, the gateway closes this one first.
        with suppress(ConnectionClosed, OSError):
            socket.send(opening(ann))
            socket.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
        socket.socket.close()
    gateway.all_closed()
    asyncio.run(until(lambda: descriptors(api) <= before + 5))


def descriptors(api: ApiProcess) -> int:
    return len(os.listdir(f"/proc/{api.pid}/fd"))


# Sockets without a library


def handshake(browser: Browser, connection: str, *, extra: str = "") -> bytes:
    return (
        f"GET /api/connections/{connection}/terminal HTTP/1.1\r\nHost: localhost:{browser.api.settings.api_port}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {SUBPROTOCOL}\r\nCookie: {browser.cookie}\r\n{extra}\r\n"
    ).encode()


def answer_to(api: ApiProcess, request: bytes) -> bytes:
    """What comes within a moment."""
    with sockets.create_connection(("localhost", api.settings.api_port), timeout=20) as socket:
        socket.sendall(request)
        socket.shutdown(sockets.SHUT_WR)
        return read_all(socket)


def read_all(socket: sockets.socket) -> bytes:
    data = b""
    with suppress(ConnectionError, TimeoutError):
        while more := socket.recv(65536):
            data += more
    return data


def masked(opcode: int, payload: bytes, *, final: bool = True) -> bytes:
    """A client's frame, with a mask of zeros."""
    head = bytes([opcode | (0x80 if final else 0)])
    if len(payload) < 126:
        return head + bytes([0x80 | len(payload)]) + b"\0\0\0\0" + payload
    size = struct.pack(">BH", 0xFE, len(payload)) if len(payload) < 65536 else struct.pack(">BQ", 0xFF, len(payload))
    return head + size + b"\0\0\0\0" + payload


@contextmanager
def raw_terminal(browser: Browser, connection: str) -> Iterator[sockets.socket]:
    """An open terminal on a socket that reads nothing by itself."""
    with sockets.create_connection(("localhost", browser.api.settings.api_port), timeout=60) as socket:
        socket.sendall(handshake(browser, connection, extra=f"Origin: {browser.api.url}\r\n"))
        assert socket.recv(4096).startswith(b"HTTP/1.1 101")
        socket.sendall(masked(0x1, opening(browser).encode()))
        assert b"opened" in socket.recv(4096)
        yield socket
