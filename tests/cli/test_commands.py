"""`postern connect` and `postern exec` on commands: real programs, a real terminal, a whole gateway."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.promises import wait_until, within
from tests.support.running import Gateway, started
from tests.support.sitting import Sitting

from postern.agent.process_cleanup import processes

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo", "--gateway-commands") as made:
        for name, command in (("shell", "bash --norc"), ("python", "python3 -u -")):
            created = made.run("connections", "create", name, "--command", command)
            assert (created.returncode, created.stderr) == (0, "")  # no warning: it runs commands
        yield made


def piped(gateway: Gateway, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "postern", *arguments],
        env=gateway.environment,
        input=data,
        capture_output=True,
        timeout=300,
        check=False,
    )


def newest(gateway: Gateway) -> dict[str, object]:
    found = json.loads(gateway.run("sessions", "list", "--limit", "1", "--json").stdout)
    one: dict[str, object] = found["data"][0]
    return one


def test_a_shell_at_a_terminal(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    sitting = sit("connect", "shell")
    sitting.shows("bash-")
    sitting.type("PS1='re''ady> '; stty size; echo $TERM\r")
    sitting.shows("25 95")
    sitting.shows("xterm")
    sitting.shows("ready> ")  # at the prompt: bash may undo a change that comes before it
    sitting.size(12, 60)
    os.killpg(sitting.process.pid, signal.SIGWINCH)
    sitting.type("until [ \"$(stty size)\" = '12 60' ]; do sleep 0.1; done; echo res''ized\r")
    sitting.shows("resized")
    sitting.type("bash -c 'echo in''terrupt; exec sleep 300'\r")
    sitting.shows("interrupt")
    sitting.type("\x03")
    sitting.type("echo co''de-$?\r")
    sitting.shows("code-130")
    sitting.type("echo still he''re; exit 42\r")
    sitting.shows("still here")
    assert sitting.leaves() == 42
    wait_until(lambda: newest(gateway)["status"] == "done")
    assert newest(gateway)["exit_code"] == 42


def test_a_terminal_that_is_told_to_end_is_given_back_as_it_was(sit: Callable[..., Sitting]) -> None:
    sitting = sit("connect", "shell")
    sitting.shows("bash-")
    sitting.type("bash -c 'echo rea\"\"dy; exec sleep 300'; exit 7\r")  # the signal ends that, and the shell goes on
    sitting.shows("ready")
    sitting.process.send_signal(signal.SIGTERM)
    assert sitting.leaves() == 7


def test_who_must_be_let_in_waits_at_the_terminal_until_ctrl_c(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    for change in (["create", "asked", "--command", "bash --norc"], ["update", "asked", "--set", "reviewers=dba"]):
        made = gateway.run("connections", *change)
        assert made.returncode == 0, made.stderr
    sitting = sit("connect", "asked", "--reason", "ticket 4711", "--duration", "20m")
    sitting.shows("1 member of the group 'dba' must approve")
    sitting.shows("postern reviews approve")
    session = newest(gateway)
    assert (session["connection"], session["status"]) == ("asked", "open")
    sitting.type("\x03")
    sitting.shows("Stopped waiting")
    assert sitting.leaves() == 255
    assert newest(gateway) == session  # the review stays, and what waits for it


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_waiting_of_a_pipe_that_nobody_takes_more_of(
    gateway: Gateway, tmp_path: Path, by: signal.Signals
) -> None:
    name = f"asked-{by.name}"
    for change in (["create", name, "--command", "bash --norc"], ["update", name, "--set", "reviewers=dba"]):
        made = gateway.run("connections", *change)
        assert made.returncode == 0, made.stderr
    much = tmp_path / "much"
    with much.open("wb") as file:
        file.truncate(32 << 20)
    with much.open("rb") as file:
        client = subprocess.Popen(
            [sys.executable, "-m", "postern", "connect", name, "--", "-c", "cat"],
            env=gateway.environment,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    with client:
        assert client.stderr is not None
        assert b"1 member of the group 'dba' must approve" in client.stderr.readline()
        wait_until(lambda: int(Path(f"/proc/{client.pid}/fdinfo/0").read_text().split()[1]) > 1 << 20)
        session = newest(gateway)
        client.send_signal(by)
        output, errors = client.communicate(timeout=60)
    assert (client.returncode, output) == (128 + by, b"")
    assert b"Stopped waiting" in errors
    assert newest(gateway) == session
    assert (session["connection"], session["status"]) == (name, "open")


def test_a_killed_session_ends_the_command_line_and_its_processes(
    sit: Callable[..., Sitting], gateway: Gateway
) -> None:
    sitting = sit("connect", "shell")
    sitting.shows("bash-")
    sitting.type("(trap '' HUP TERM; sleep 300) & echo rea''dy\r")
    sitting.shows("ready")
    session = str(newest(gateway)["id"])
    assert gateway.run("sessions", "kill", session).returncode == 0
    wait_until(lambda: not processes(-1, f"POSTERN_SESSION_ID={session}".encode()), within(2))
    sitting.shows("this session was killed")
    assert sitting.leaves() == 255


def test_attack_output_that_would_fill_the_memory_of_a_slow_reader(gateway: Gateway) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-m", "postern", "connect", "shell", "--", "-c", "head -c 60000000 /dev/zero"],
        env=gateway.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    time.sleep(4)
    pages = int(Path(f"/proc/{reader.pid}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") < 120_000_000
    assert reader.stdout is not None
    assert len(reader.stdout.read()) == 60_000_000
    assert reader.wait(60) == 0


def test_50_mb_through_pipes_are_the_same(gateway: Gateway) -> None:
    data = os.urandom(50_000_000)
    done = piped(gateway, "connect", "shell", "--", "-c", "cat; echo e >&2; exit 3", data=data)
    assert (done.returncode, done.stderr) == (3, b"e\n")
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_exec_keeps_output_errors_and_exit_code_apart(gateway: Gateway) -> None:
    script = (
        "import os, sys; print('out', os.environ['MODE'], sys.argv[1:]); print('err', file=sys.stderr); sys.exit(9)"
    )
    done = piped(gateway, "exec", "python", "-e", "MODE=dry", "--", "a b", data=script.encode())
    assert (done.returncode, done.stdout) == (9, b"out dry ['a b']\n")
    assert done.stderr.startswith(b"err\npostern: session ")


def test_exec_with_arguments_alone(gateway: Gateway) -> None:
    done = piped(gateway, "exec", "shell", "--json", "--", "-c", "echo hi; exit 4")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["output_status"]) == (4, 4, "failed")


def test_exec_as_json_has_output_and_errors_apart_of_a_script_that_takes_long_too(gateway: Gateway) -> None:
    script = "echo one; sleep 1.6; echo oops >&2; sleep 0.2; echo two; exit 5"
    done = piped(gateway, "exec", "shell", "--json", data=script.encode())
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (5, b"")
    assert (told["stdout"], told["stderr"], told["output"]) == ("one\ntwo\n", "oops\n", "one\noops\ntwo\n")
    assert (told["output_status"], told["exit_code"], told["truncated"]) == ("failed", 5, False)


def test_exec_on_what_is_reviewed_runs_by_itself_when_it_is_approved(
    sit: Callable[..., Sitting], gateway: Gateway
) -> None:
    """By one person, who may approve their own here."""
    for arguments in (
        ("admin", "features", "enable", "self-review"),
        ("connections", "create", "guarded", "--command", "bash --norc"),
        ("connections", "update", "guarded", "--set", "reviewers=admin"),
    ):
        assert gateway.run(*arguments).returncode == 0
    sitting = sit("exec", "guarded", "-i", "echo $((6 * 7)); exit 3", "--reason", "ticket 4711")
    sitting.shows("waiting for 1 of admin")
    (review,) = json.loads(gateway.run("reviews", "list", "--for-me", "--json").stdout)["data"]
    assert (review["reason"], review["status"]) == ("ticket 4711", "PENDING")
    approved = json.loads(gateway.run("reviews", "approve", review["id"], "--json").stdout)
    assert (approved["status"], approved["self_approved"]) == ("APPROVED", True)
    sitting.shows("42\r\n")
    assert sitting.leaves() == 3
    assert b"[info] approved; running" in sitting.shown

    def is_over() -> bool:
        shown = json.loads(gateway.run("reviews", "show", review["id"], "--json").stdout)
        return bool(shown["status"] == "EXECUTED")

    wait_until(is_over)
    again = piped(gateway, "exec", "--resume", review["session"])
    assert (again.returncode, again.stdout) == (3, b"42\n")


def test_exec_at_a_terminal_shows_that_it_runs(sit: Callable[..., Sitting], gateway: Gateway, tmp_path: Path) -> None:
    script = f"until [ -e {tmp_path / 'enough'} ]; do sleep 0.1; done; echo ended"
    sitting = sit("exec", "shell", "-i", script)
    sitting.shows("running; Ctrl-C kills it")
    session = str(newest(gateway)["id"])
    sitting.shows(" s  running")
    (tmp_path / "enough").touch()
    assert f"postern sessions show {session}` shows its progress" in sitting.shown.decode()
    sitting.shows(f"[info] session {session}\r\n")
    assert b"\r\x1b[Kended\r\n" in sitting.shown
    assert sitting.leaves() == 0


def test_exec_at_a_terminal_shows_output_while_it_runs(
    sit: Callable[..., Sitting], gateway: Gateway, tmp_path: Path
) -> None:
    script = f"echo begun; until [ -e {tmp_path / 'enough'} ]; do sleep 0.1; done; echo ended"
    sitting = sit("exec", "shell", "-i", script)
    sitting.shows("\r\x1b[Kbegun\r\n")  # in place of the progress
    (tmp_path / "enough").touch()
    sitting.shows("begun\r\nended\r\n")
    assert sitting.leaves() == 0


@pytest.mark.parametrize(
    ("script", "after"),
    [("sleep 300", "running; Ctrl-C kills it"), ("echo begun; sleep 300", "begun"), ("sleep 300", "")],
)
def test_ctrl_c_kills_a_script_at_the_gateway(
    sit: Callable[..., Sitting], gateway: Gateway, script: str, after: str
) -> None:
    before = newest(gateway)["id"]
    sitting = sit("exec", "shell", "-i", script)
    if after:
        sitting.shows(after)
    else:  # while the first answer is waited for, and which session it is cannot be known yet
        wait_until(lambda: newest(gateway)["id"] != before)
    sitting.process.send_signal(signal.SIGINT)
    session = str(newest(gateway)["id"])
    sitting.shows(f"killed session {session}; ")
    assert sitting.leaves() == 130
    wait_until(lambda: newest(gateway)["status"] == "done")
    found = json.loads(gateway.run("sessions", "show", session, "--json").stdout)
    assert found["metadata"]["end_reason"] == "killed"
    wait_until(lambda: not processes(-1, f"POSTERN_SESSION_ID={session}".encode()))


def test_ctrl_c_without_a_terminal_kills_it_too(gateway: Gateway) -> None:
    before = newest(gateway)["id"]
    started = subprocess.Popen(
        [sys.executable, "-m", "postern", "exec", "shell", "--json", "-i", "sleep 300"],
        env=gateway.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with started:
        wait_until(lambda: newest(gateway)["id"] != before)
        time.sleep(1.5)
        started.send_signal(signal.SIGINT)
        output, errors = started.communicate(timeout=60)
    assert (started.returncode, output) == (130, b"")
    assert errors.startswith(b"postern: killed session ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["exec", "shell", "-e", "NONAME", "-i", "x"], "NAME=VALUE"),
        (["exec", "shell", "-e", "LD_PRELOAD=/x", "-i", "x"], "controls which code runs"),
        (["connect", "shell", "--native"], "for databases"),
        (["connect", "shell", "--native", "--reason", "ticket 4711"], "cannot be combined with --native"),
        (["connect", "shell", "--duration", "for ever"], "is not a duration"),
    ],
)
def test_what_cannot_be(gateway: Gateway, arguments: Sequence[str], said: str) -> None:
    done = gateway.run(*arguments)
    assert done.returncode != 0
    assert said in done.stderr
