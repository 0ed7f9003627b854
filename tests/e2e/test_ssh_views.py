"""An SSH session as others see it: live, afterwards, as a file, and on replay, with its window sizes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import httpx
import pytest
from tests.support.accounts import ok, signed_in
from tests.support.promises import PATIENT, wait_until
from tests.support.running import Gateway, started
from tests.support.sshds import Sshd, sshd


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    with started("--no-demo") as made:
        secrets = {"HOST": "127.0.0.1", "PORT": target.port, "USER": target.user, "PRIVATE_KEY": target.key}
        given = [part for key, value in secrets.items() for part in ("--env", f"{key}={value}")]
        ok(made, "connections", "create", "web-1", "--type", "application", "--subtype", "ssh", *given)
        yield made


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> httpx.Client:
    return signed_in(gateway)


@asynccontextmanager
async def connected(gateway: Gateway) -> AsyncIterator[asyncssh.SSHClientConnection]:
    login = json.loads(ok(gateway, "connect", "web-1", "--native", "--json"))
    async with asyncssh.connect(
        "localhost",
        login["port"],
        username=login["username"],
        password=login["password"],
        known_hosts=None,
        client_keys=None,
        config=None,
        agent_path=None,
    ) as connection:
        yield connection


@asynccontextmanager
async def at_a_terminal(gateway: Gateway) -> AsyncIterator[asyncssh.SSHClientProcess[bytes]]:
    async with (
        connected(gateway) as connection,
        connection.create_process("bash --norc", term_type="xterm", term_size=(91, 27), encoding=None) as process,
    ):
        yield process


async def shows(process: asyncssh.SSHClientProcess[bytes], what: bytes) -> None:
    await process.stdout.readuntil(what)


async def resize(process: asyncssh.SSHClientProcess[bytes], columns: int, rows: int) -> None:
    """Wait for the prompt, then resize. When bash starts to read a line, it reads the terminal's size and writes it
    back, so a change at that moment would be lost."""
    await shows(process, b"bash-")
    process.change_terminal_size(columns, rows)


def newest(gateway: Gateway) -> dict[str, Any]:
    """The newest session, once there is one: a client can be served before its session is listed."""
    return wait_until(lambda: next(iter(gateway.sessions()), None))


def done(gateway: Gateway) -> dict[str, Any]:
    return wait_until(lambda: one if (one := newest(gateway))["status"] == "done" else None)


def exported(gateway: Gateway, session: str, form: str, folder: Path) -> tuple[Any, list[Any]]:
    """The header and the events."""
    file = folder / f"{form}.cast"
    ok(gateway, "sessions", "export", session, "--format", form, "-o", str(file))
    header, *events = [json.loads(line) for line in file.read_text().splitlines()]
    return header, events


async def test_terminal_session_is_streamed_live_with_its_sizes(gateway: Gateway, api: httpx.Client) -> None:
    async def watch(session: str, seen: list[dict[str, Any]], some: asyncio.Event) -> dict[str, Any]:
        async with (
            httpx.AsyncClient(base_url=api.base_url, headers=api.headers, timeout=PATIENT) as client,
            client.stream("GET", f"/sessions/{session}/stream") as answer,
        ):
            name = ""
            async for line in answer.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data" and name == "session_end":
                    return dict(json.loads(value))
                elif field == "data":
                    seen.append(json.loads(value))
                    some.set()
        raise AssertionError("it ended without saying so")

    def text(seen: list[dict[str, Any]], kind: str) -> bytes:
        return b"".join(base64.b64decode(one["payload"]) for one in seen if one["type"] == kind)

    seen: list[dict[str, Any]] = []
    some = asyncio.Event()
    async with asyncio.timeout(PATIENT):
        async with at_a_terminal(gateway) as process:
            session = (await asyncio.to_thread(newest, gateway))["id"]
            watching = asyncio.create_task(watch(session, seen, some))
            process.stdin.write(b"echo fir''st\r")
            while b"first\r\n" not in text(seen, "o"):  # it runs on, and is waited for by nobody
                await some.wait()
                some.clear()
            await resize(process, 100, 31)
            process.stdin.write(b"echo sec''ond; exit 3\r")
            assert (await process.wait()).exit_status == 3
        assert await watching == {"reason": "client_closed", "detail": None, "exit_code": 3}
    assert b"second\r\n" in text(seen, "o")
    typed = [base64.b64decode(one["payload"]) for one in seen if one["type"] == "i"]
    assert typed[1:] == [b"echo fir''st", b"echo sec''ond; exit 3"]
    assert [base64.b64decode(one["payload"]) for one in seen if one["type"] == "r"] == [b"91x27", b"100x31"]


async def test_terminal_session_is_exported_and_replayed(gateway: Gateway, api: httpx.Client, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENT), at_a_terminal(gateway) as process:
        process.stdin.write("echo grü''n\r".encode())
        await shows(process, "grün\r\n".encode())
        await resize(process, 100, 31)
        process.stdin.write(b"stty size; printf '\\033[31mr''ed\\n'\r")
        await shows(process, b"\x1b[31mred\r\n")
        process.stdin.write(b"exit\r")
        await process.wait()
    session = await asyncio.to_thread(lambda: done(gateway)["id"])
    header, events = await asyncio.to_thread(exported, gateway, session, "asciicast", tmp_path)
    assert (header["version"], header["width"], header["height"]) == (2, 91, 27)
    assert [text for _, kind, text in events if kind == "r"] == ["100x31"]
    assert [text for _, kind, text in events if kind == "m"][1:] == [
        "echo grü''n",
        "stty size; printf '\\033[31mr''ed\\n'",
        "exit",
    ]
    printed = "".join(text for _, kind, text in events if kind == "o")
    assert printed.index("grün\r\n") < printed.index("31 100\r\n") < printed.index("\x1b[31mred\r\n")
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    header, events = await asyncio.to_thread(exported, gateway, session, "asciicast-v3", tmp_path)
    assert (header["version"], header["term"]) == (3, {"cols": 91, "rows": 27})
    assert events[-1] == [0, "x", "0"]
    assert "".join(text for _, kind, text in events if kind == "o") == printed
    apart = {
        kind: "".join(text for _, _, text in await asyncio.to_thread(stream, api, session, kind)) for kind in "ior"
    }
    assert apart["o"] == printed
    assert apart["i"].endswith("exit")
    assert apart["r"] == "91x27100x31"
    replayed = await asyncio.to_thread(ok, gateway, "sessions", "replay", session, "--raw", "--speed", "1000")
    assert "\x1b[31mred" in replayed


def stream(api: httpx.Client, session: str, kind: str) -> list[tuple[float, str, str]]:
    """Its events of one kind."""
    answer = api.get(f"/sessions/{session}", params={"expand": "event_stream", "events": kind})
    assert answer.is_success, answer.text
    return [(at, one, base64.b64decode(content).decode()) for at, one, content in answer.json()["event_stream"]]


async def test_output_and_errors_of_a_command_are_recorded_separately(gateway: Gateway, api: httpx.Client) -> None:
    async with asyncio.timeout(PATIENT), connected(gateway) as connection:
        done_ = await connection.run("read line; echo out $line; echo err >&2", input="piped\n")
    assert (done_.stdout, done_.stderr) == ("out piped\n", "err\n")
    session = await asyncio.to_thread(lambda: done(gateway)["id"])
    found = {kind: [text for _, _, text in await asyncio.to_thread(stream, api, session, kind)] for kind in "ioe"}
    assert found == {
        "i": ["read line; echo out $line; echo err >&2", "piped\n"],
        "o": ["out piped\n"],
        "e": ["err\n"],
    }


async def test_last_window_size_is_recorded_however_often_it_changes(
    gateway: Gateway, api: httpx.Client, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENT), at_a_terminal(gateway) as process:
        process.stdin.write(b"for n in $(seq 2000); do echo number $n; done\r")
        for number in range(3_000):
            process.change_terminal_size(40 + number % 100, 20 + number % 30)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await shows(process, b"number 2000\r\n")
        await resize(process, 77, 33)
        process.stdin.write(b"stty size\r")
        await shows(process, b"33 77\r\n")
        process.stdin.write(b"exit\r")
        await process.wait()
    session = await asyncio.to_thread(lambda: done(gateway)["id"])
    _, events = await asyncio.to_thread(exported, gateway, session, "asciicast", tmp_path)
    sizes = [text for _, kind, text in events if kind == "r"]
    assert sizes[-1] == "77x33"
    assert len(sizes) <= 3_001  # those that came while nobody read are one
