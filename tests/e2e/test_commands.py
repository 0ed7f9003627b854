"""Commands through a whole worker: scripts, and tunnel streams as the command line opens them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

import pytest
from tests.agent.test_command import Client
from tests.support.gateway import Gateway
from tests.support.promises import wait_until, within

from postern.agent.process_cleanup import processes
from postern.domain.rules.masking import CustomType, Strategy, TypeGroup
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason, Session
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.protocols.terminal import terminal_frames as m
from postern.transport import websocket
from postern.transport.mux import Mux
from postern.wiring import tls

TERMINAL = {"columns": 90, "rows": 20, "name": "xterm"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    running = Gateway(gateway_commands=True, script_output_limit=3_000_000)
    try:
        running.start()
        command(running, "shell", "bash")
        command(running, "python", "python3", "-u", "-", secret={"TOKEN": "planted-secret"})
        command(running, "masked", "python3", "-u", "-", redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
        command(running, "masked-shell", "bash", "--norc", redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
        guarded = command(running, "guarded", "bash", "--norc")
        running.guardrail("no-rm", guarded, deny=r"rm\s+-rf", deny_output="top-secret")
        yield running
    finally:
        running.stop()


def command(
    gateway: Gateway, name: str, *argv: str, secret: Mapping[str, str] | None = None, **more: Any
) -> Connection:
    fields: dict[str, Any] = dict(
        name=name,
        type=ConnectionType.CUSTOM,
        subtype="",
        agent_id=gateway._agent.id,
        access_mode_connect=Toggle.ENABLED,
        access_mode_exec=Toggle.ENABLED,
        access_mode_runbooks=Toggle.ENABLED,
        access_schema=Toggle.ENABLED,
        command=argv,
        secret={f"envvar:{key}": Secret(_encoded(value)) for key, value in (secret or {}).items()},
        **more,
    )
    return gateway.call(gateway.services.connections.create(gateway.admin, fields))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def submit(gateway: Gateway, script: str, connection: str, *arguments: str, **environment: str) -> Session:
    invocation = Invocation(arguments, {name: Secret(value) for name, value in environment.items()})
    return gateway.call(
        gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1", invocation=invocation)
    )


def execute(gateway: Gateway, script: str, connection: str = "shell", *arguments: str, **environment: str) -> Session:
    return gateway.finished(submit(gateway, script, connection, *arguments, **environment).id, 60)


def stream(gateway: Gateway, session: Session, kind: str) -> str:
    events = gateway.services.sessions.events(gateway.session(session.id))
    return b"".join(content for _, found, content in events if found == kind).decode()


def alive(session: Session) -> set[int]:
    return processes(-1, f"POSTERN_SESSION_ID={session.id}".encode())


def test_script_with_arguments_and_variables_records_output_errors_and_exit_code(gateway: Gateway) -> None:
    session = execute(gateway, "echo out $1 $MODE; echo err >&2; exit 3", "shell", "-s", "arg", MODE="dry")
    assert (session.exit_code, session.metadata["end_reason"]) == (3, "failed")
    assert stream(gateway, session, "o") == "out arg dry\n"
    assert stream(gateway, session, "e") == "err\n"
    assert stream(gateway, session, "i") == "echo out $1 $MODE; echo err >&2; exit 3\n-- $1 = '-s'\n-- $2 = 'arg'"


def test_successful_script_has_exit_code_0(gateway: Gateway) -> None:
    session = execute(gateway, "import os; print(len(os.environ['TOKEN']))", "python")
    assert (session.exit_code, session.metadata["end_reason"]) == (0, "completed")
    assert stream(gateway, session, "o") == "14\n"


def test_masking_rule_masks_the_output_of_a_program(gateway: Gateway) -> None:
    ruled = command(gateway, "ruled", "python3", "-u", "-")
    gateway.masking_rule(
        {
            "name": "badges",
            "groups": (TypeGroup("CONTACT", ("EMAIL_ADDRESS",)),),
            "custom_types": (CustomType("BADGE", "B-[0-9]{6}"),),
            "strategy": Strategy.PARTIAL,
            "connection_ids": (str(ruled.id),),
        }
    )
    script = (
        "import sys, time\n"
        "sys.stdout.write('badge B-12'); sys.stdout.flush(); time.sleep(0.2); print('3456 of ann@example.com')\n"
        "print('B-654' + '321', file=sys.stderr)"
    )
    session = execute(gateway, script, "ruled")
    shown = gateway.text(session.id)
    assert "badge ****3456 of a***@example.com" in shown
    assert "B-654321" not in shown
    assert session.metrics["data_masking"]["info_types"] == {"BADGE": 2, "EMAIL_ADDRESS": 1}


def test_value_split_over_two_writes_is_masked(gateway: Gateway) -> None:
    script = "import sys,time\nfor t in ('a: ann@exa', 'mple.com b', 'ob@example.com'):\n"
    script += "    sys.stdout.write(t); sys.stdout.flush(); time.sleep(0.3)\n"
    session = execute(gateway, script, "masked")
    assert stream(gateway, session, "o") == "a: ****@**** ****@****"
    assert session.metrics["data_masking"]["info_types"] == {"EMAIL_ADDRESS": 2}


def test_denied_script_never_runs_and_its_error_names_the_rule(gateway: Gateway) -> None:
    session = execute(gateway, "echo ran; rm -rf /nowhere", "guarded")
    assert session.exit_code == 1
    assert "ran" not in stream(gateway, session, "o")
    assert 'guardrail "no-rm" (rule "denied")' in stream(gateway, session, "e")
    assert session.metrics["refused"] == 1


def test_attack_denied_script_in_an_argument_never_runs(gateway: Gateway) -> None:
    session = execute(gateway, "", "guarded", "-c", "echo ran; rm -rf /nowhere")
    assert session.exit_code == 1
    assert stream(gateway, session, "o") == ""


def test_blocked_output_ends_the_script(gateway: Gateway) -> None:
    session = execute(gateway, "echo fine; sleep 2; echo it is top-secret; sleep 60", "guarded")
    assert session.exit_code == 1
    assert stream(gateway, session, "o") == "fine\n"
    wait_until(lambda: not alive(session))


def test_kill_ends_all_processes_of_a_command_within_two_seconds(gateway: Gateway) -> None:
    script = "trap '' TERM HUP; (trap '' TERM HUP; sleep 300) & setsid -f sleep 300; while :; do sleep 0.1; done"
    session = submit(gateway, script, "shell")
    wait_until(lambda: len(alive(session)) >= 3)
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    wait_until(lambda: not alive(session), within(2))
    done = gateway.finished(session.id)
    assert (done.exit_code, done.metadata["end_reason"]) == (255, "killed")


def test_max_duration_ends_a_running_script(gateway: Gateway) -> None:
    gateway.add_worker("brief", max_duration=4)
    gateway.workers["w1"].stop()
    try:
        session = execute(gateway, "echo begun; sleep 300")
    finally:
        gateway.workers.pop("brief").stop()
        gateway.workers["w1"].start()
    assert (session.exit_code, session.metadata["end_reason"]) == (255, "expired")
    assert "begun" in stream(gateway, session, "o")
    assert "maximum duration" in stream(gateway, session, "e")
    wait_until(lambda: not alive(session))


def test_output_over_the_limit_ends_the_script(gateway: Gateway) -> None:
    session = execute(gateway, "yes")
    assert session.exit_code == 255
    assert "printed more than 3000000 bytes" in stream(gateway, session, "e")


def test_command_with_a_missing_program_fails_with_exit_code_6(gateway: Gateway) -> None:
    command(gateway, "absent", "no-such-program")
    session = execute(gateway, "x", "absent")
    assert session.exit_code == 6  # the target cannot be reached
    assert "'no-such-program' does not exist" in gateway.text(session.id)


def test_attack_gateway_denies_commands_that_it_would_run_itself() -> None:
    running = Gateway()
    try:
        running.start()
        command(running, "shell", "bash")
        session = execute(running, "id", "shell")
        assert session.exit_code == 1
        assert "POSTERN_GATEWAY_COMMANDS" in running.text(session.id)
    finally:
        running.stop()


# Streams of a tunnel


Talk = Callable[["Opened"], Awaitable[None]]


class Opened:
    """A stream of a tunnel to a command."""

    def __init__(self, client: Client, transport: asyncio.Transport) -> None:
        self.client = client
        self.transport = transport

    def send(self, *frames: bytes) -> None:
        self.transport.write(b"".join(frames))

    def type(self, text: str) -> None:
        self.send(m.frame(m.STDIN, text.encode()))

    async def shows(self, text: str, seconds: float = 60.0) -> None:
        await self.client.until(lambda: text in self.client.text(), seconds)

    async def ends(self) -> m.Exit:
        await self.client.until(lambda: self.client.exit)
        assert self.client.exit is not None
        return self.client.exit


def talk(gateway: Gateway, connection: str, work: Talk, *, token: Secret | None = None, **request: Any) -> None:
    """As the administrator, unless `token` is somebody else's."""
    token = token or gateway.token
    asyncio.run(_talk(gateway, token.reveal(), {"connect": connection, "terminal": TERMINAL, **request}, work))


async def _talk(gateway: Gateway, token: str, request: dict[str, Any], work: Talk) -> None:
    url = f"wss://localhost:{gateway.settings.tunnel_port}"
    _, made = await websocket.connect(
        url,
        token=token,
        ca=tls.authority_der(gateway.settings),
        protocol=lambda: Mux(dialler=True, hello={}, on_open=lambda _: None),
    )
    mux = cast("Mux", made)
    await mux.greeting
    client = Client()
    stream, _ = await mux.open(request, client)
    opened = Opened(client, stream)
    opened.send(m.START_FRAME)
    try:
        async with asyncio.timeout(120):
            await work(opened)
    finally:
        mux.close("the test is over")


def test_terminal_follows_window_sizes_and_records_input_and_output(gateway: Gateway) -> None:
    async def work(opened: Opened) -> None:
        opened.type("PS1='re''ady> '; stty size\r")
        await opened.shows("20 90")
        await opened.shows("ready> ")  # at the prompt: bash may undo a change that comes before it
        opened.send(m.resize(50, 10))
        opened.type("stty size; exit 9\r")
        await opened.shows("10 50")
        assert await opened.ends() == m.Exit(9, "")

    talk(gateway, "shell", work)
    session = gateway.newest_finished("shell")
    assert (session.verb, session.exit_code, session.metadata["end_reason"]) == ("connect", 9, "client_closed")
    assert "stty size; exit 9" in stream(gateway, session, "i")
    assert "10 50" in stream(gateway, session, "o")


def test_denied_typed_line_is_not_run(gateway: Gateway) -> None:
    async def work(opened: Opened) -> None:
        opened.type("echo re''ady\r")
        await opened.shows("ready")  # a shell that still starts would end with the line that is refused
        opened.type("echo ra''n; rm -rf /nowhere\r")
        await opened.client.until(lambda: "no-rm" in opened.client.text(m.STDERR))
        for _ in range(5):  # a shell that is busy for long may lose a line that comes within a moment of a refused one
            opened.type("echo af''ter\r")
            with suppress(AssertionError, TimeoutError):
                await opened.shows("after", 10)
                break
        assert "after" in opened.client.text()
        assert "ran\r\n" not in opened.client.text()
        opened.type("exit\r")
        await opened.ends()

    talk(gateway, "guarded", work)


def test_masked_terminal_shows_a_prompt_without_a_line_end(gateway: Gateway) -> None:
    async def work(opened: Opened) -> None:
        opened.type("read -p 'your na''me: ' x; echo got: $x\r")
        await opened.shows("your name: ")
        opened.type("ann@example.com\r")
        await opened.shows("got: ****@****")
        opened.type("exit\r")
        await opened.ends()

    talk(gateway, "masked-shell", work)
    session = gateway.newest_finished("masked-shell")
    assert "got: ann@example.com" not in stream(gateway, session, "o")


def test_pipes_of_a_command_carry_any_bytes(gateway: Gateway) -> None:
    data = bytes(range(256)) * 40_000

    async def work(opened: Opened) -> None:
        opened.client.keeps = True
        for at in range(0, len(data), 1 << 20):
            opened.send(m.frames(m.STDIN, data[at : at + (1 << 20)]))
            await opened.client.until(lambda: not opened.client.full, 60)
        opened.send(m.STDIN_END_FRAME)
        assert (await opened.ends()).code == 0
        assert b"".join(payload for kind, payload in opened.client.frames if kind == m.STDOUT) == data

    talk(gateway, "shell", work, terminal=None, arguments=["-c", "cat"])


def test_killed_terminal_shows_the_reason(gateway: Gateway) -> None:
    async def work(opened: Opened) -> None:
        opened.type("echo rea''dy\r")
        await opened.shows("ready")
        session = gateway.newest("shell")
        await asyncio.to_thread(gateway.call, gateway.services.sessions.kill(gateway.admin, session.id))
        assert (await opened.ends()).code == 255
        assert "this session was killed" in opened.client.text(m.STDERR)

    talk(gateway, "shell", work)
    assert gateway.newest_finished("shell").metadata["end_reason"] == EndReason.KILLED


def test_connection_without_a_command_gives_a_clear_error(gateway: Gateway) -> None:
    gateway.connection("no-command")

    async def work(opened: Opened) -> None:
        assert (await opened.ends()).code == 255
        assert "has no command" in opened.client.text(m.STDERR)

    talk(gateway, "no-command", work)


def test_disconnected_client_ends_all_its_processes(gateway: Gateway) -> None:
    async def work(opened: Opened) -> None:
        opened.type("(trap '' HUP; sleep 300) & echo rea''dy\r")
        await opened.shows("ready")

    talk(gateway, "shell", work)
    session = gateway.newest_finished("shell")
    wait_until(lambda: not alive(session))
    gateway.all_closed(connection="shell")
