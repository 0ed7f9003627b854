"""Channels to a real OpenSSH server behave like those of a direct client."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.postgres import unprivileged_user
from tests.support.promises import until
from tests.support.ssh_channels import Running, Servers, secrets_of
from tests.support.sshds import Sshd, sshd

from postern.protocols.ssh.target import ssh_target_login as logins
from postern.protocols.ssh.target import ssh_targets as sharing
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelKind, Terminal

SETTINGS = {"AcceptEnv": "LANG LC_* GREETING", "Subsystem": "sftp internal-sftp", "RekeyLimit": "16M"}
MEGABYTE = os.urandom(1 << 20)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Of whoever the server runs as: it passes no signals on to programs of root."""
    made = Path(tempfile.mkdtemp(prefix="postern-ssh-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Sshd]:
    with sshd(folder, SETTINGS, unprivileged_user()) as made:
        yield made


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Of our own account: terminals are given away, which not everybody may."""
    with sshd(tmp_path_factory.mktemp("ssh"), SETTINGS) as made:
        yield made


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    made = Servers()
    yield made
    await made.close()


async def start(servers: Servers, server: Sshd, what: str | None = None, **how: object) -> Running:
    running = await servers.dial(secrets_of(server), what, **how)  # type: ignore[arg-type]
    running.send(m.START_FRAME)
    return running


@pytest.mark.parametrize("code", [0, 1, 7, 255])
async def test_exit_code_follows_all_output(servers: Servers, server: Sshd, code: int) -> None:
    running = await start(servers, server, f"echo out; echo bad >&2; exit {code}")
    assert await running.ended() == m.Exit(code, "")
    assert running.text() == "out\n"
    assert running.text(m.STDERR) == "bad\n"
    assert running.reader.kinds[-1] == m.EXIT


async def test_program_does_not_run_before_the_start_frame(servers: Servers, server: Sshd, folder: Path) -> None:
    made = folder / "made"
    running = await servers.dial(secrets_of(server), f"touch {made}")
    assert (await servers.run(secrets_of(server), "true"))[0].code == 0  # the server had time
    assert not made.exists()
    running.send(m.START_FRAME)
    assert (await running.ended()).code == 0
    assert made.exists()


async def test_signal_that_ended_a_program_is_reported(servers: Servers, server: Sshd) -> None:
    assert (await servers.run(secrets_of(server), "kill -SEGV $$"))[0] == m.Exit(128 + signal.SIGSEGV, "SEGV")


@pytest.mark.parametrize("name", ["TERM", "USR1", "KILL"])
async def test_signals_reach_the_program(servers: Servers, server: Sshd, name: str) -> None:
    running = await start(servers, server, "echo ready; exec sleep 600")
    await running.until(lambda: running.text() == "ready\n")
    running.send(m.signal(name))
    ended = await running.ended()
    assert ended.code == 128 + signal.Signals[f"SIG{name}"]
    assert ended.signal == name


async def test_shell_reads_typed_input_and_follows_the_terminal_size(servers: Servers, own: Sshd) -> None:
    running = await start(servers, own, terminal=Terminal(101, 42, "vt220"), environment={"GREETING": "hi there"})
    running.send(m.frame(m.STDIN, b"stty size; echo $TERM-$GREETING.\r"))
    await running.until(lambda: running.text().partition("vt220-hi there.")[2].rstrip().endswith(("$", "#")))
    assert "42 101" in running.text()
    # At the prompt: bash may undo a change that comes before it
    running.send(m.resize(90, 33), m.frame(m.STDIN, b"stty size\r"))
    await running.until(lambda: "33 90" in running.text())
    running.send(m.frame(m.STDIN, b"exit 5\r"))
    assert (await running.ended()).code == 5
    assert m.STDERR not in running.reader.kinds


async def test_input_before_the_channel_is_open_is_delivered(servers: Servers, server: Sshd) -> None:
    """The whole input arrives in one write, like from a script."""
    running = await servers.dial(secrets_of(server), "cat; stty size 2>/dev/null")
    running.send(m.START_FRAME, m.resize(5, 5), m.frame(m.STDIN, b"abc"), m.frame(m.STDIN, b"def"), m.STDIN_END_FRAME)
    assert (await running.ended()).code != 126
    assert running.text() == "abcdef"


async def test_unknown_terminal_type_becomes_dumb(servers: Servers, own: Sshd) -> None:
    running = await start(servers, own, "echo $TERM", terminal=Terminal(80, 24, "$(x)\n"))
    assert (await running.ended()).code == 0
    assert running.text() == "dumb\r\n"


async def test_only_variables_of_the_client_reach_the_server(
    servers: Servers, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_OURS", "secret")
    running = await start(servers, server, "env", environment={"LC_THEIRS": "x y", "bad name": "z"})
    assert (await running.ended()).code == 0
    assert "LC_THEIRS=x y\n" in running.text()
    assert "LC_OURS" not in running.text()


async def test_command_that_is_not_utf_8_runs(servers: Servers, server: Sshd) -> None:
    what = os.fsdecode(b"printf %s '\xff\xfe' | od -An -tx1")
    assert (await servers.run(secrets_of(server), what))[1].split() == ["ff", "fe"]


async def test_subsystem_runs(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "sftp", kind=ChannelKind.SUBSYSTEM)
    running.send(m.frame(m.STDIN, b"\0\0\0\5\1\0\0\0\3"))  # SSH_FXP_INIT, version 3
    await running.until(lambda: len(running.reader.output[m.STDOUT]) >= 9)
    assert running.reader.output[m.STDOUT][4] == 2  # SSH_FXP_VERSION
    running.send(m.STDIN_END_FRAME)
    assert (await running.ended()).code == 0


async def test_missing_subsystem_is_not_run(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "nothing", kind=ChannelKind.SUBSYSTEM)
    assert (await running.ended()).code == m.NOT_RUN
    assert running.text(m.STDERR) == "postern: the target did not open this channel: Session request failed\n"


async def test_end_of_output_is_reported_before_the_program_ends(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "echo out; exec >&- 2>&-; cat >/dev/null; exit 3")
    await running.until(lambda: m.OUTPUT_END in running.reader.kinds)
    assert running.reader.kinds == [m.STDOUT, m.OUTPUT_END]
    assert running.reader.exit is None
    running.send(m.frame(m.STDIN, b"more"), m.STDIN_END_FRAME)
    assert (await running.ended()).code == 3


async def test_input_after_its_end_is_ignored(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "cat; sleep 0.2")
    running.send(m.frame(m.STDIN, b"one"), m.STDIN_END_FRAME, m.frame(m.STDIN, b"two"))
    assert (await running.ended()).code == 0
    assert running.text() == "one"


@pytest.mark.parametrize("first", ["client", "server"])
async def test_forwarded_connection_can_be_half_closed(servers: Servers, server: Sshd, first: str) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if first == "client":
            heard.append(await reader.read())
            writer.write(b"answer")
            writer.write_eof()
        else:
            writer.write(b"answer")
            writer.write_eof()
            heard.append(await reader.read())
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    running = await start(servers, server, f"127.0.0.1:{port}", kind=ChannelKind.FORWARD)
    running.send(m.frame(m.STDIN, b"question"))
    if first == "server":
        await running.until(lambda: m.OUTPUT_END in running.reader.kinds)
        assert running.reader.exit is None
    running.send(m.STDIN_END_FRAME)
    assert await running.ended() == m.Exit(0, "")
    assert heard == [b"question"]
    assert running.text() == "answer"
    assert running.reader.kinds == [m.STDOUT, m.OUTPUT_END, m.EXIT]
    listening.close()


async def test_forwarded_connection_to_a_closed_port_is_not_opened(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "127.0.0.1:1", kind=ChannelKind.FORWARD)
    assert (await running.ended()).code == m.NOT_RUN
    assert "did not open this channel" in running.text(m.STDERR)


async def test_hundred_mb_are_received_unchanged_although_the_reader_stalls(
    servers: Servers, server: Sshd, folder: Path
) -> None:
    file = folder / "large"
    with file.open("wb") as large:
        for _ in range(100):
            large.write(MEGABYTE)
    running = await start(servers, server, f"cat {file}; echo done >&2")
    for stop in (1, 20 << 20, 60 << 20):
        await running.output(stop)
        running.transport.pause_reading()
        size = running.reader.size
        assert (await servers.run(secrets_of(server), "echo others go on"))[1] == "others go on\n"
        assert running.reader.size == size
        waiting = sum(len(data) for data, _ in running.transport._channel._recv_buf)
        assert waiting <= logins.WINDOW
        running.transport.resume_reading()
    assert (await running.ended()).code == 0
    assert running.reader.size == 100 << 20
    assert running.reader.digest.hexdigest() == hashlib.sha256(MEGABYTE * 100).hexdigest()
    assert running.text(m.STDERR) == "done\n"


@pytest.mark.ci
async def test_hundred_mb_are_sent_unchanged_although_the_program_stalls(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "sleep 0.5; sha256sum")
    largest = 0
    for _ in range(100):
        await running.send_all(MEGABYTE)
        largest = max(largest, running.transport.get_write_buffer_size())
    running.send(m.STDIN_END_FRAME)
    assert (await running.ended()).code == 0
    assert running.text().split()[0] == hashlib.sha256(MEGABYTE * 100).hexdigest()
    assert largest < 4 << 20


async def test_exit_is_delivered_after_a_paused_reader_resumes(servers: Servers, server: Sshd) -> None:
    running = await servers.dial(secrets_of(server), "head -c 200000 /dev/zero; exit 9")
    running.transport.pause_reading()
    running.send(m.START_FRAME)
    await until(lambda: running.transport._exit is not None)
    assert (await servers.run(secrets_of(server), "true"))[0].code == 0
    assert running.reader.kinds == []
    running.transport.resume_reading()
    assert await running.ended() == m.Exit(9, "")
    assert running.reader.size == 200_000


async def test_exit_without_output_is_delivered_after_a_paused_reader_resumes(servers: Servers, server: Sshd) -> None:
    running = await servers.dial(secrets_of(server), "exit 9")
    running.transport.pause_reading()
    running.send(m.START_FRAME)
    await until(lambda: running.transport._over)
    assert running.reader.kinds == []
    running.transport.resume_reading()
    assert await running.ended() == m.Exit(9, "")


async def test_reader_that_pauses_at_each_piece_receives_all_output(servers: Servers, server: Sshd) -> None:
    running = await servers.dial(secrets_of(server), "head -c 3000000 /dev/zero; echo end >&2; exit 4")
    whole = running.reader.data_received

    def one_piece(data: bytes) -> None:
        running.transport.pause_reading()
        whole(data)
        asyncio.get_running_loop().call_soon(running.transport.resume_reading)

    running.reader.data_received = one_piece  # type: ignore[method-assign]
    running.send(m.START_FRAME)
    assert (await running.ended()).code == 4
    assert running.reader.size == 3_000_000
    assert running.text(m.STDERR) == "end\n"


async def test_reader_that_raises_ends_only_its_own_channel(servers: Servers, server: Sshd) -> None:
    other = await start(servers, server, "cat")
    running = await servers.dial(secrets_of(server), "echo; exec sleep 600")

    def fails(data: bytes) -> None:
        raise ValueError("it cannot be kept")

    running.reader.data_received = fails  # type: ignore[method-assign]
    running.send(m.START_FRAME)
    await running.until(lambda: running.reader.lost)
    other.send(m.frame(m.STDIN, b"goes on"), m.STDIN_END_FRAME)
    assert (await other.ended()).code == 0
    assert other.text() == "goes on"


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_closed_channel_ends_its_program(servers: Servers, server: Sshd, how: str) -> None:
    running = await start(servers, server, "echo $$; exec sleep 600")
    await running.until(lambda: running.text().endswith("\n"))
    pid = int(running.text())
    getattr(running.transport, how)()
    await running.until(lambda: running.reader.lost)
    assert running.reader.exit is None
    await until(lambda: not Path(f"/proc/{pid}").exists())
    assert (await servers.run(secrets_of(server), "echo still here"))[1] == "still here\n"


def connections(servers: Servers) -> int:
    """That channels use now."""
    return sum(bool(shared.users) for shared in servers.targets._logins._held.values())


async def test_further_connection_is_opened_at_the_servers_session_limit(servers: Servers, tmp_path: Path) -> None:
    with sshd(tmp_path, {"MaxSessions": "2"}) as narrow:
        several = await asyncio.gather(*(start(servers, narrow, "echo in; cat") for _ in range(8)))
        for running in several:
            await running.output(3)
        assert connections(servers) == 4
        for running in several[:2]:
            running.send(m.STDIN_END_FRAME)
            assert (await running.ended()).code == 0
        assert (await servers.run(secrets_of(narrow), "echo again"))[1] == "again\n"
        for running in several[2:]:
            running.send(m.STDIN_END_FRAME)
            assert (await running.ended()).code == 0
        for running in several:
            running.target.release()
        assert connections(servers) == 1  # of who ran behind them


async def test_channel_over_the_servers_limits_is_not_opened(
    servers: Servers, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSH accepts ten sessions per connection (MaxSessions)."""
    monkeypatch.setattr(sharing, "MOST_CONNECTIONS", 1)
    several = [await start(servers, server, "echo in; cat") for _ in range(11)]
    for running in several[:10]:
        await running.output(3)
    assert (await several[10].ended()).code == m.NOT_RUN
    assert several[10].text(m.STDERR) == "postern: the target did not open this channel: open failed\n"
    for running in several[:10]:
        running.send(m.STDIN_END_FRAME)
        assert (await running.ended()).code == 0
    assert (await servers.run(secrets_of(server), "echo again"))[1] == "again\n"


async def test_channel_closed_while_it_opens_frees_its_session(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "sleep 600")
    running.transport.close()
    await running.until(lambda: running.reader.lost)
    for _ in range(12):  # more than the server takes at once
        assert (await servers.run(secrets_of(server), "true"))[0].code == 0


@pytest.mark.parametrize(
    "frames",
    [
        m.frame(m.STDIN, b"x"),
        m.START_FRAME + m.START_FRAME,
        m.frame(m.STDOUT, b"x"),
        m.START_FRAME + m.frame(99),
        m.START_FRAME + m.frame(m.SIGNAL, b"NONE"),
        m.START_FRAME + m.frame(m.RESIZE, b"1"),
        b"\2\xff\xff\xff\xff",
    ],
)
async def test_malformed_frames_close_the_channel(servers: Servers, server: Sshd, frames: bytes) -> None:
    running = await servers.dial(secrets_of(server), "sleep 600")
    running.send(frames)
    await running.until(lambda: running.reader.lost)
    assert running.reader.exit is None


async def test_lost_server_ends_channels_and_the_next_one_reconnects(servers: Servers, server: Sshd) -> None:
    several = [await start(servers, server, "echo $PPID; cat") for _ in range(3)]
    for running in several:
        await running.output(2)
    waits = await servers.dial(secrets_of(server), "true")
    os.kill(int(several[0].text()), signal.SIGKILL)
    for running in several:
        assert await running.ended() == m.Exit(m.ENDED, "")
        assert running.text(m.STDERR).startswith("postern: the connection to the target was lost: ")
    waits.send(m.START_FRAME)
    assert (await waits.ended()).code == m.NOT_RUN
    assert waits.text(m.STDERR).startswith("postern: the ")
    assert (await servers.run(secrets_of(server), "echo a new one"))[1] == "a new one\n"


async def test_lost_server_is_reported_after_a_paused_reader_resumes(servers: Servers, server: Sshd) -> None:
    running = await start(servers, server, "echo $PPID; head -c 100000 /dev/zero; sleep 600")
    await running.until(lambda: running.reader.size > 0)
    running.transport.pause_reading()
    await until(
        lambda: running.reader.size + sum(len(data) for data, _ in running.transport._channel._recv_buf) > 100_000
    )
    os.kill(int(running.text().split()[0]), signal.SIGKILL)
    await until(lambda: running.transport._over)
    assert running.reader.exit is None
    running.transport.resume_reading()
    assert (await running.ended()).code == m.ENDED
    assert running.reader.size > 100_000
