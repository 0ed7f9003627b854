"""Commands as an agent runs them, with real processes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import uvloop
from tests.agent.test_secrets import order
from tests.support.promises import until, wait_until, within

from postern.agent.agent_policy import ANYTHING, NO_COMMANDS
from postern.agent.command_process import CommandTransport
from postern.agent.process_cleanup import processes
from postern.agent.secrets import ResolvedSecrets
from postern.descriptors import INHERITED
from postern.domain.secret import Secret
from postern.errors import Denied, Unavailable
from postern.protocols.command.command_target import CommandTargets
from postern.protocols.terminal import terminal_frames as m
from postern.relay.orders import Order
from postern.relay.relay_target import Start, Terminal

SHELL = Terminal(100, 30)


class Client(asyncio.Protocol):
    """The other end of a command's stream."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.size = 0
        self.digest = hashlib.sha256()
        self.keeps = True
        self.lost = asyncio.get_running_loop().create_future()
        self.news = asyncio.Event()
        self.full = False
        self._reader = m.TerminalFrameReader()

    def data_received(self, data: bytes) -> None:
        for kind, payload in self._reader.feed(data):
            self.size += len(payload)
            self.digest.update(payload if kind == m.STDOUT else b"")
            if self.keeps or kind == m.EXIT:
                self.frames.append((kind, payload))
        self.news.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self.news.set()

    def text(self, kind: int = m.STDOUT) -> str:
        return b"".join(payload for found, payload in self.frames if found == kind).decode()

    @property
    def exit(self) -> m.Exit | None:
        return next((m.read_exit(payload) for kind, payload in self.frames if kind == m.EXIT), None)

    async def until(self, true: Callable[[], object], seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while not true():
                self.news.clear()
                await self.news.wait()


class Command:
    """A running command."""

    def __init__(self, transport: CommandTransport, client: Client, order: Order) -> None:
        self.transport = transport
        self.client = client
        self.order = order

    def send(self, *frames: bytes) -> None:
        self.transport.write(b"".join(frames))

    def alive(self) -> set[int]:
        return processes(-1, f"POSTERN_SESSION_ID={self.order.session_id}".encode())

    async def ended(self, seconds: float = 60.0) -> m.Exit:
        await self.client.until(lambda: self.client.exit, seconds)
        await asyncio.wait_for(asyncio.shield(self.client.lost), seconds)
        assert self.client.exit is not None
        return self.client.exit


async def run(
    *argv: str,
    terminal: Terminal | None = None,
    environment: dict[str, str] | None = None,
    secrets: dict[str, str] | None = None,
    stdin: bytes | None = b"",
    environ: dict[str, str] | None = None,
) -> Command:
    start = Start(arguments=argv[1:], environment=environment or {}, terminal=terminal)
    wanted = replace(order({}), subtype="", command=argv[:1], start=start, session_id=uuid4())
    facts = {"POSTERN_SESSION_ID": str(wanted.session_id)} | (secrets or {})
    resolved = ResolvedSecrets({}, {name: Secret(value) for name, value in facts.items()})
    target = await CommandTargets(ANYTHING, environ or dict(os.environ)).dial(wanted, resolved)
    transport = target.stream.transport
    assert isinstance(transport, CommandTransport)
    client = Client()
    target.stream.hand_over(client)
    command = Command(transport, client, wanted)
    command.send(m.START_FRAME)
    if stdin is not None:
        command.send(m.frames(m.STDIN, stdin), m.STDIN_END_FRAME)
    return command


Work = Callable[[], Awaitable[None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def go(request: pytest.FixtureRequest) -> Iterator[Callable[[Work], None]]:
    """Runs a test's coroutine on either loop, and looks whether file descriptors were left open."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    async def watched(work: Work) -> None:
        await asyncio.to_thread(time.sleep, 0)  # the thread and its descriptors are there
        before = set(os.listdir("/proc/self/fd"))
        await work()
        # Others of this process may open and close some meanwhile.
        await until(lambda: not set(os.listdir("/proc/self/fd")) - before)

    with asyncio.Runner(loop_factory=factory) as runner:
        yield lambda work: runner.run(watched(work))


Go = Callable[[Work], None]


def test_output_errors_and_exit_code_are_separate(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "-c", "cat; echo out; echo err >&2; exit 3", stdin=b"in\n")
        assert await command.ended() == m.Exit(3, "")
        assert command.client.text() == "in\nout\n"
        assert command.client.text(m.STDERR) == "err\n"

    go(work)


def test_arguments_pass_no_shell(go: Go) -> None:
    async def work() -> None:
        command = await run("printf", "%s|", "$HOME; id", "a  b", "*")
        assert (await command.ended()).code == 0
        assert command.client.text() == "$HOME; id|a  b|*|"

    go(work)


def test_command_gets_only_basic_environment_variables_of_the_agent(go: Go) -> None:
    async def work() -> None:
        environ = {"PATH": os.environ["PATH"], "AWS_SECRET_ACCESS_KEY": "planted", "POSTERN_KEY": "planted"}
        command = await run(
            "env",
            environ=environ,
            environment={"MODE": "dry", "LD_PRELOAD": "/evil.so", "TOKEN": "of the client"},
            secrets={"TOKEN": "of the connection"},
        )
        await command.ended()
        found = dict(line.split("=", 1) for line in command.client.text().splitlines())
        assert found.keys() - {"LC_CTYPE"} == {"PATH", "LANG", "MODE", "TOKEN", "POSTERN_SESSION_ID"}
        assert (found["MODE"], found["TOKEN"]) == ("dry", "of the connection")

    go(work)


def test_command_gets_the_limit_of_open_files_from_before_it_was_raised(
    go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INHERITED, "777")

    async def work() -> None:
        command = await run("bash", "-c", "ulimit -Sn")
        await command.ended()
        assert command.client.text() == "777\n"

    go(work)


def test_secrets_are_not_in_the_arguments_of_a_command(go: Go) -> None:
    async def work() -> None:
        command = await run("sleep", "300", secrets={"PASS": "planted-secret"}, stdin=None)
        pids = await asyncio.to_thread(wait_until, command.alive)
        lines = [_command_line(pid) for pid in pids]
        assert lines
        assert not any(b"planted" in line for line in lines)
        command.transport.close()
        await command.client.lost

    go(work)


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_command_does_not_run_before_it_is_started(go: Go, tmp_path: Path) -> None:
    async def work() -> None:
        start = Start(arguments=(str(tmp_path / "ran"),))
        wanted = replace(order({}), subtype="", command=("touch",), start=start)
        target = await CommandTargets(ANYTHING, {}).dial(wanted, ResolvedSecrets({}, {}))
        client = Client()
        target.stream.hand_over(client)
        await asyncio.sleep(0.1)
        assert target.stream.transport is not None
        target.stream.transport.close()
        await client.lost
        assert not (tmp_path / "ran").exists()

    go(work)


def test_signal_that_ended_a_command_is_reported(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "-c", "kill -SEGV $$")
        assert await command.ended() == m.Exit(139, "SEGV")

    go(work)


def test_missing_program_is_reported_at_once(go: Go) -> None:
    async def work() -> None:
        with pytest.raises(Unavailable, match="no-such-program"):
            await run("no-such-program")

    go(work)


def test_agent_policy_denies_commands(go: Go) -> None:
    async def work() -> None:
        wanted = replace(order({}), subtype="", command=("true",))
        with pytest.raises(Denied, match="policy"):
            await CommandTargets(NO_COMMANDS, {}).dial(wanted, ResolvedSecrets({}, {}))

    go(work)


@pytest.mark.ci
def test_two_hundred_mb_through_cat_are_unchanged_and_use_little_memory(go: Go) -> None:
    async def work() -> None:
        command = await run("cat", stdin=None)
        command.client.keeps = False
        block = os.urandom(1 << 20)
        wanted = hashlib.sha256()
        peak = 0
        for _ in range(200):
            wanted.update(block)
            command.send(m.frames(m.STDIN, block))
            peak = max(peak, command.transport.get_write_buffer_size())
            await command.client.until(lambda: not command.client.full, 60)
        command.send(m.STDIN_END_FRAME)
        assert (await command.ended(300)).code == 0
        assert command.client.digest.digest() == wanted.digest()
        assert peak < 3 << 20

    go(work)


def test_client_that_does_not_read_stalls_the_program(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "-c", "for i in 1 2 3 4; do head -c 1000000 /dev/zero; echo $i >&2; done")
        command.client.keeps = False
        command.transport.pause_reading()
        await asyncio.sleep(0.3)
        assert command.client.size < 200_000
        command.transport.resume_reading()
        assert (await command.ended()).code == 0
        assert command.client.size >= 4_000_000

    go(work)


def test_terminal_has_its_size_and_follows_changes(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "--norc", terminal=SHELL, stdin=None)
        command.send(m.frame(m.STDIN, b"stty size; echo $TERM; tty\r"))
        await command.client.until(lambda: "bash-" in command.client.text().partition("30 100")[2])
        # At the prompt: bash may undo a change that comes before it
        command.send(m.resize(77, 11), m.frame(m.STDIN, b"stty size; exit 5\r"))
        assert await command.ended() == m.Exit(5, "")
        assert "11 77" in command.client.text()
        assert "xterm-256color" in command.client.text()
        assert "/dev/pts/" in command.client.text()

    go(work)


def test_ctrl_c_reaches_the_foreground_process(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "--norc", terminal=SHELL, stdin=None)
        # What says so is what is to be ended, which is in the foreground by then.
        command.send(m.frame(m.STDIN, b"bash -c 'echo be\"\"gin; exec sleep 300'\r"))
        await command.client.until(lambda: "begin" in command.client.text())
        command.send(m.frame(m.STDIN, b"\x03"))
        command.send(m.frame(m.STDIN, b"echo co''de-$?\r"))
        await command.client.until(lambda: "code-130" in command.client.text())
        command.send(m.frame(m.STDIN, b"bash -c 'echo an\"\"swers; exec sleep 300'\r"))
        await command.client.until(lambda: "answers" in command.client.text())
        command.send(m.signal("INT"))
        command.send(m.frame(m.STDIN, b"echo al''so-$?\r"))
        await command.client.until(lambda: "also-130" in command.client.text())
        command.send(m.frame(m.STDIN, b"exit\r"))
        await command.ended()

    go(work)


def test_end_of_input_ends_a_shell(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "--norc", terminal=SHELL, stdin=None)
        await command.client.until(lambda: command.client.text())
        command.send(m.STDIN_END_FRAME)
        assert (await command.ended()).code == 0

    go(work)


def test_signals_reach_a_command_without_a_terminal(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "-c", "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.05; done")
        await command.client.until(lambda: "ready" in command.client.text())
        command.send(m.signal("USR1"))
        assert await command.ended() == m.Exit(7, "")
        assert "caught" in command.client.text()

    go(work)


STUBBORN = "trap '' HUP TERM INT; (trap '' HUP TERM; sleep 300) & echo ready; while :; do sleep 0.1; done"


@pytest.mark.parametrize("terminal", [None, SHELL], ids=["pipes", "terminal"])
@pytest.mark.ci
def test_command_that_ignores_signals_is_killed(go: Go, terminal: Terminal | None) -> None:
    async def work() -> None:
        command = await run("bash", "-c", STUBBORN, terminal=terminal, stdin=None)
        await command.client.until(lambda: "ready" in command.client.text())
        command.transport.close()
        await asyncio.wait_for(command.client.lost, within(2))
        assert command.alive() == set()

    go(work)


def test_attack_grandchild_that_leaves_the_session_is_killed(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "-c", "setsid -f sleep 300 >/dev/null 2>&1; echo ready; sleep 300", stdin=None)
        await command.client.until(lambda: "ready" in command.client.text())

        async def both() -> bool:  # the second sleep is begun after what was printed
            return len(await asyncio.to_thread(command.alive)) >= 2

        await until(both)
        command.transport.close()
        await asyncio.wait_for(command.client.lost, 60)
        assert command.alive() == set()

    go(work)


def test_attack_background_process_that_keeps_printing_is_killed(go: Go) -> None:
    async def work() -> None:
        command = await run("bash", "-c", "yes & sleep 300 & echo done; exit 4")
        command.client.keeps = False
        assert (await command.ended()).code == 4
        assert command.alive() == set()

    go(work)


def test_malformed_frame_ends_the_command(go: Go) -> None:
    async def work() -> None:
        command = await run("sleep", "300", stdin=None)
        command.send(b"\x63\0\0\0\0")
        await asyncio.wait_for(command.client.lost, 60)
        assert command.alive() == set()

    go(work)


def test_killed_agent_ends_its_command(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import asyncio, sys
        sys.path[:0] = {sys.path!r}
        from tests.agent.test_command import run
        async def main():
            command = await run("sleep", "299", stdin=None)
            print(command.order.session_id, flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
        """
    )
    agent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    mark = f"POSTERN_SESSION_ID={agent.stdout.readline().strip()}".encode()
    wait_until(lambda: {pid for pid in processes(-1, mark) if b"299" in _command_line(pid)})
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    wait_until(lambda: not processes(-1, mark), within(2))
