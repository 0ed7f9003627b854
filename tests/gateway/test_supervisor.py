"""The supervisor with real child processes, each a few lines of Python."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fork_servers import program_server
from tests.support.promises import until, wait_until

from postern.errors import Unavailable
from postern.gateway.processes import supervisor as module
from postern.gateway.processes.children import Child, ChildSpec
from postern.gateway.processes.forked_processes import ForkServer
from postern.gateway.processes.supervisor import Supervisor, back_off, run

pytestmark = pytest.mark.ci

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

SERVE = """
import os, signal, sys, time
from postern.process import announce_ready, die_with_parent
die_with_parent()
with open(sys.argv[1], "a") as file: file.write(f"{os.getpid()}\\n")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
announce_ready()
time.sleep(60)
"""
STUBBORN = SERVE.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")
FAIL = "import sys; sys.exit(3)"
SILENT = "import time; time.sleep(60)"


def child(program: str, *arguments: object, **more: object) -> ChildSpec:
    return ChildSpec("w1", ("-c", program, *map(str, arguments)), preload=("json",), **more)  # type: ignore[arg-type]


@pytest.fixture(params=["executed", "forked"])
def fork_server(request: pytest.FixtureRequest) -> Iterator[ForkServer | None]:
    """Each test runs with children that are executed, and with children that are forked."""
    if request.param == "executed":
        yield None
        return
    server = program_server(ENVIRONMENT)
    yield server
    server.stop()


def pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_crashed_child_is_restarted_and_logged(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told = tmp_path / "pids"
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    await supervisor.start(child(SERVE, told))
    os.kill(pids(told)[0], signal.SIGKILL)
    await until(lambda: "w1 has restarted" in caplog.messages)
    assert len(pids(told)) == 2
    said = [message for message in caplog.messages if "SIGKILL" in message]
    assert len(said) == 1
    assert said[0] == "w1 was ended by signal SIGKILL; restarting it now"
    await supervisor.stop()
    assert not any(alive(pid) for pid in pids(told))


async def test_child_that_crashes_before_it_is_ready_is_retried(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_DELAY", 0.01)
    marker = tmp_path / "pids"
    once = SERVE.replace("with open", "if os.path.exists(sys.argv[1]): sys.exit(7)\nwith open")
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    await supervisor.start(child(once, marker))
    os.kill(pids(marker)[0], signal.SIGKILL)
    await until(lambda: sum("exit code 7 before it was ready" in message for message in caplog.messages) >= 2)
    await supervisor.stop()


def test_back_off_doubles_with_jitter_up_to_a_limit() -> None:
    assert back_off(0) == 0
    for crashes, longest in ((1, 0.4), (2, 0.8), (4, 3.2), (10, 30.0), (5000, 30.0)):
        delays = {back_off(crashes) for _ in range(50)}
        assert all(longest / 2 <= delay <= longest for delay in delays)
        assert len(delays) > 1


@pytest.mark.parametrize(
    ("program", "patience", "why"),
    [
        (FAIL, 60.0, "w1 ended with exit code 3 before it was ready"),
        (SILENT, 0.5, "w1 was not ready after 0.5 s"),
    ],
)
async def test_child_that_is_never_ready_fails_the_start_and_is_ended(
    fork_server: ForkServer | None, program: str, patience: float, why: str
) -> None:
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    with pytest.raises(Unavailable, match=why):
        await supervisor.start(child(program, ready_timeout=patience))
    await supervisor.stop()
    assert all(each.process.returncode is not None for each in supervisor._children.values())


async def test_child_that_does_not_stop_is_killed(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    await supervisor.start(child(STUBBORN, tmp_path / "pids"))
    await supervisor.stop()
    assert not alive(pids(tmp_path / "pids")[0])
    assert "w1 did not stop within 0.3 s and was killed" in caplog.messages


async def test_child_that_outlives_others_is_stopped_last(fork_server: ForkServer | None, tmp_path: Path) -> None:
    order = tmp_path / "order"
    program = SERVE.replace(
        "lambda *_: sys.exit(0)", "lambda *_: (open(sys.argv[2], 'a').write(sys.argv[3]), sys.exit(0))"
    )
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    await supervisor.start(child(program, tmp_path / "a", order, "target ", outlives=True))
    await supervisor.start(
        ChildSpec("w2", ("-c", program, str(tmp_path / "b"), str(order), "worker "), preload=("json",))
    )
    await supervisor.stop()
    assert order.read_text() == "worker target "


@pytest.mark.slow
async def test_child_that_takes_35_seconds_to_start_is_waited_for(
    fork_server: ForkServer | None, tmp_path: Path
) -> None:
    """Half a minute was too short for the API on a busy machine."""
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    slow = SERVE.replace("announce_ready()", "time.sleep(35)\nannounce_ready()")
    await supervisor.start(child(slow, tmp_path / "pids"))
    assert alive(pids(tmp_path / "pids")[0])
    await supervisor.stop()


async def test_run_once_waits_for_the_child_and_raises_its_failure(fork_server: ForkServer | None) -> None:
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    await supervisor.run_once(child("pass"))
    with pytest.raises(Unavailable, match="w1 ended with exit code 3"):
        await supervisor.run_once(child(FAIL))


SUPERVISE = """
import asyncio, os, sys
from postern.gateway.processes import supervisor as module
from postern.gateway.processes.supervisor import Supervisor, run
from tests.support.fork_servers import program_server
server = program_server(os.environ) if sys.argv.pop(1) == "forked" else None
if len(sys.argv) > 3: module.PATIENCE = float(sys.argv[3])
from postern.gateway.processes.children import Child, ChildSpec
async def body(supervisor):
    await supervisor.start(ChildSpec("w1", ("-c", sys.argv[1], sys.argv[2]), preload=("json",)))
    print("up", flush=True)
    await supervisor.wait()
asyncio.run(run(Supervisor(os.environ, fork_server=server), body))
print("down", flush=True)
"""


def supervised(fork_server: ForkServer | None, program: str, told: Path, *more: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, "forked" if fork_server else "executed", program, told, *more],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_all_children_cleanly(
    fork_server: ForkServer | None, tmp_path: Path, number: signal.Signals
) -> None:
    process = supervised(fork_server, SERVE, tmp_path / "pids")
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert output == b"down\n"
    assert process.returncode == 0
    assert not alive(pids(tmp_path / "pids")[0])


def test_second_signal_stops_at_once(fork_server: ForkServer | None, tmp_path: Path) -> None:
    process = supervised(fork_server, STUBBORN, tmp_path / "pids", "3600")
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None

    def ended() -> bool:  # two that come at the same moment are one
        process.send_signal(signal.SIGINT)
        return process.poll() is not None

    wait_until(ended, 60, every=0.3)
    process.communicate()
    assert not alive(pids(tmp_path / "pids")[0])


def test_children_end_with_a_killed_supervisor(fork_server: ForkServer | None, tmp_path: Path) -> None:
    process = supervised(fork_server, SERVE, tmp_path / "pids")
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not alive(pids(tmp_path / "pids")[0]))


async def test_run_raises_the_error_of_its_body() -> None:
    async def body(supervisor: Supervisor) -> None:
        raise Unavailable("no reason")

    with pytest.raises(Unavailable, match="no reason"):
        await run(Supervisor(ENVIRONMENT), body)


async def test_child_does_not_inherit_excluded_environment_variables(
    fork_server: ForkServer | None, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    code = f"import os; open({str(told)!r}, 'w').write(repr(sorted(os.environ)))"
    spec = ChildSpec("demo", ("-c", code), without=frozenset({"OUR_MASTER"}), preload=("json",))
    child = await Child.spawn(spec, {**os.environ, "OUR_MASTER": "a key", "OTHER": "1"}, fork_server)
    assert await child.process.wait() == 0
    assert "OTHER" in told.read_text()
    assert "OUR_MASTER" not in told.read_text()


# A child with an event loop. `{then}` is what that does once it serves.
LOOPING = """
import asyncio, os, signal, sys, time
from postern.process import announce_ready, die_with_parent
die_with_parent()
async def main():
    with open(sys.argv[1], "a") as file: file.write(f"{{os.getpid()}}\\n")
    announce_ready(asyncio.get_running_loop())
    {then}
    await asyncio.sleep(60)
def hang_here(): time.sleep(60)
asyncio.run(main())
"""
FIRST = "if len(open(sys.argv[1]).readlines()) == 1: "  # only the first such process, not its replacement


def heart(path: Path, then: str = "pass") -> ChildSpec:
    return child(LOOPING.format(then=then), path, heartbeat=True)


async def watched(fork_server: ForkServer | None, spec: ChildSpec, watchdog_timeout: float = 2.5) -> Supervisor:
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server, watchdog_timeout=watchdog_timeout)
    await supervisor.start(spec)
    return supervisor


async def test_suspended_child_is_replaced(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    supervisor = await watched(fork_server, heart(tmp_path / "pids"))
    [first] = pids(tmp_path / "pids")
    os.kill(first, signal.SIGSTOP)
    await until(lambda: "w1 has restarted" in caplog.messages)
    assert not alive(first)
    assert any(f"w1 (pid {first}) hangs" in message for message in caplog.messages)
    await supervisor.stop()


async def test_child_with_blocked_event_loop_writes_its_stacks_and_is_replaced(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    supervisor = await watched(fork_server, heart(tmp_path / "pids", FIRST + "hang_here()"))
    await until(lambda: "w1 has restarted" in caplog.messages)
    first, second = pids(tmp_path / "pids")
    assert not alive(first)
    assert alive(second)
    assert "in hang_here" in capfd.readouterr().err
    await supervisor.stop()


@pytest.mark.parametrize(
    "then",
    [
        "t = time.monotonic()\n    while time.monotonic() - t < 5: await asyncio.sleep(0)",
        "time.sleep(1.5); await asyncio.sleep(1.1); time.sleep(1.5); await asyncio.sleep(1.1); time.sleep(1.5)",
    ],
    ids=["busy", "slow"],
)
async def test_busy_child_is_not_replaced(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, then: str
) -> None:
    supervisor = await watched(fork_server, heart(tmp_path / "pids", then), watchdog_timeout=3.0)
    await asyncio.sleep(5.5)
    assert len(pids(tmp_path / "pids")) == 1
    assert not caplog.messages
    await supervisor.stop()


async def test_child_without_heartbeat_is_not_watched(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The demo database has no event loop."""
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server, watchdog_timeout=0.5)
    await supervisor.start(child(SERVE, tmp_path / "pids"))
    await asyncio.sleep(1.5)
    assert len(pids(tmp_path / "pids")) == 1
    await supervisor.stop()


async def delays(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, crashes: int
) -> list[str]:
    """What the log says about each restart of a child that is killed as soon as it serves."""
    caplog.set_level(logging.INFO)
    told = tmp_path / "pids"
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    await supervisor.start(child(SERVE, told))
    for number in range(1, crashes + 1):
        os.kill(pids(told)[-1], signal.SIGKILL)
        await until(lambda number=number: caplog.messages.count("w1 has restarted") == number)  # type: ignore[misc]
    await supervisor.stop()
    return [message.rpartition("restarting it ")[2] for message in caplog.messages if "restarting it" in message]


async def test_child_that_crashes_at_once_is_restarted_with_growing_delays(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = await delays(fork_server, tmp_path, caplog, 3)
    assert first == "now"
    assert 0.2 <= float(second.split()[1]) <= 0.4
    assert 0.4 <= float(third.split()[1]) <= 0.8


async def test_child_that_ran_long_enough_is_restarted_at_once(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEADY_AFTER", 0.0)
    assert await delays(fork_server, tmp_path, caplog, 3) == ["now", "now", "now"]


async def test_startup_time_of_a_child_does_not_count_as_running(
    fork_server: ForkServer | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that never becomes ready has not run, however long that takes."""
    monkeypatch.setattr(module, "STEADY_AFTER", 0.6)
    told = tmp_path / "pids"
    stuck = SERVE.replace("with open", "if os.path.exists(sys.argv[1]): time.sleep(0.9); sys.exit(7)\nwith open")
    supervisor = Supervisor(ENVIRONMENT, fork_server=fork_server)
    await supervisor.start(child(stuck, told))
    os.kill(pids(told)[0], signal.SIGKILL)

    def waits() -> list[str]:
        return [message.rpartition("restarting it ")[2] for message in caplog.messages if "restarting it" in message]

    await until(lambda: len(waits()) >= 3)
    assert [wait != "now" for wait in waits()[1:3]] == [True, True]
    await supervisor.stop()
