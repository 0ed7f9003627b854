"""Processes that the fork server starts: what they have in common with executed ones, and what must not be shared."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.fork_servers import program_server
from tests.support.promises import until, wait_until

from postern.errors import Unavailable
from postern.gateway.processes import forked_processes as module
from postern.gateway.processes.children import Child, ChildSpec
from postern.gateway.processes.forked_processes import ForkedProcess, ForkFailed, ForkServer
from postern.gateway.processes.supervisor import Supervisor
from postern.settings import Settings
from postern.wiring.processes import machine_processes

pytestmark = pytest.mark.ci

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
WAIT = """
import sys, time
from postern.process import announce_ready, die_with_parent
die_with_parent()
open(sys.argv[1], "a").write("served ")
announce_ready()
time.sleep(60)
"""


@pytest.fixture
async def server() -> AsyncIterator[ForkServer]:
    started = program_server(ENVIRONMENT)
    yield started
    started.stop()


def spec(program: str, *arguments: object, name: str = "w1", preload: str = "json") -> ChildSpec:
    return ChildSpec(name, ("-c", program, *map(str, arguments)), preload=(preload,))


async def report(
    server: ForkServer | None, told: Path, program: str, environment: Mapping[str, str] = ENVIRONMENT
) -> Any:
    """Return what a program's expression `answer` is in a new process, which is executed without a server."""
    code = f"{program}\nimport json, sys\nopen(sys.argv[1], 'w').write(json.dumps(answer))"
    child = await Child.spawn(spec(code, told), environment, server)
    assert await child.process.wait() == 0
    assert isinstance(child.process, ForkedProcess) == (server is not None)
    return read(told)


def read(told: Path) -> Any:
    return json.loads(told.read_text())


def holds(pid: int | None, secret: bytes) -> bool:
    """Return whether a process has it in its memory."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            place, mode = line.split()[:2]
            if mode.startswith("rw"):
                begin, end = (int(address, 16) for address in place.split("-"))
                memory.seek(begin)
                if secret in memory.read(end - begin):
                    return True
    return False


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


FACTS = {
    "parent": "import os; answer = os.getppid()",
    "leads its session": "import os; answer = os.getsid(0) == os.getpid()",
    "signals": """
answer = [line for line in open("/proc/self/status") if line.startswith(("SigIgn", "SigCgt", "SigBlk", "SigPnd"))]
""",
    "open files besides the pipe": """
import os
pipe = int(os.environ["POSTERN_READY_FD"])
answer = {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
          if int(name) != pipe and os.path.exists(f"/proc/self/fd/{name}")}
""",
    "environment": """
import os
answer = {name: value for name, value in os.environ.items() if name not in ("POSTERN_READY_FD", "LC_CTYPE")}
""",
    "environment of its own children": """
import subprocess
lines = subprocess.check_output("env").decode(errors="surrogateescape").splitlines()
answer = sorted(line for line in lines if not line.startswith(("POSTERN_READY_FD", "LC_CTYPE")))
""",
    "limits": "answer = open('/proc/self/limits').read()",
    "folder and mask": "import os; answer = [os.getcwd(), os.umask(0)]",
    "threads": "import os; answer = len(os.listdir('/proc/self/task'))",
    "collector": "import gc; answer = [gc.isenabled(), gc.get_threshold()]",
    "death signal": """
import ctypes
from postern.process import die_with_parent
die_with_parent()
number = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(number))
answer = number.value
""",
    "adopts no orphans": """
import ctypes
number = ctypes.c_int()
ctypes.CDLL(None).prctl(37, ctypes.byref(number))
answer = number.value
""",
}


@pytest.mark.parametrize("fact", FACTS)
async def test_forked_process_is_like_an_executed_one(server: ForkServer, tmp_path: Path, fact: str) -> None:
    environment = {**ENVIRONMENT, "OURS": "a key", "BROKEN": os.fsdecode(b"\xff")}
    forked = await report(server, tmp_path / "forked", FACTS[fact], environment)
    assert forked == await report(None, tmp_path / "executed", FACTS[fact], environment)


async def test_ready_pipe_is_not_inherited_by_children_of_a_forked_process(server: ForkServer, tmp_path: Path) -> None:
    program = "import os; answer = os.get_inheritable(int(os.environ['POSTERN_READY_FD']))"
    assert await report(server, tmp_path / "told", program) is False


async def test_ps_shows_the_arguments_of_a_forked_process(server: ForkServer, tmp_path: Path) -> None:
    words = (await report(server, tmp_path / "told", "answer = open('/proc/self/cmdline').read()")).split("\0")
    assert words[:2] == [sys.executable, "-c"]
    assert words[2].startswith("answer = open(")


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('no reason')", 1),
        ("def fails(): raise ValueError('no reason')\nfails()", 1),
        ("import no_such_module", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
async def test_forked_process_ends_as_an_executed_one(
    server: ForkServer, capfd: pytest.CaptureFixture[str], program: str, code: int
) -> None:
    said = []
    for started_by in (server, None):
        child = await Child.spawn(spec(program), ENVIRONMENT, started_by)
        assert await child.process.wait() == code
        assert child.process.returncode == code
        said.append(capfd.readouterr().err.splitlines()[-1:])
    assert said[0] == said[1]


async def test_random_numbers_of_forked_processes_differ(server: ForkServer, tmp_path: Path) -> None:
    program = """
import os, random, secrets, ssl, tempfile, uuid
answer = [random.random(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(), str(uuid.uuid4()), os.urandom(8).hex(),
          next(tempfile._get_candidate_names())]
"""
    preloads = program_server(ENVIRONMENT, "random", "secrets", "ssl", "tempfile", "uuid")
    try:
        first, second = [await report(preloads, tmp_path / "told", program) for _ in range(2)]
    finally:
        preloads.stop()
    assert not set(first) & set(second)


async def test_module_is_loaded_once_and_its_variables_are_kept(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "loaded_once.py").write_text(
        "import os\nPID = os.getpid()\nos.environ.setdefault('OF_A_MODULE', '1')\nos.environ.setdefault('OURS', 'no')\n"
    )
    preloads = program_server({**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{tmp_path}"})
    program = "import loaded_once, os; answer = [loaded_once.PID, os.environ['OF_A_MODULE'], os.environ['OURS']]"
    try:
        told = tmp_path / "told"
        code = f"{program}\nimport json, sys\nopen(sys.argv[1], 'w').write(json.dumps(answer))"
        environment = {**ENVIRONMENT, "OURS": "a key"}
        child = await Child.spawn(spec(code, told, preload="loaded_once"), environment, preloads)
        assert await child.process.wait() == 0
        assert read(told) == [preloads.pid, "1", "a key"]
    finally:
        preloads.stop()


async def test_server_never_has_the_environment_of_its_processes(server: ForkServer, tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "OURS": "a-key-that-is-secret"}
    child = await Child.spawn(spec(WAIT, tmp_path / "told"), environment, server)
    await child.wait_ready()
    assert holds(child.process.pid, b"a-key-that-is-secret")
    assert not holds(server.pid, b"a-key-that-is-secret")
    await child.stop(5)


async def test_end_of_the_server_leaves_processes_alone_and_the_next_has_a_new_server(
    server: ForkServer, tmp_path: Path
) -> None:
    supervisor = Supervisor(ENVIRONMENT, fork_server=server)
    await supervisor.start(spec(WAIT, tmp_path / "told"))
    first = server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: not is_alive(first))
    await supervisor.start(spec(WAIT, tmp_path / "told", name="w2"))
    assert server.pid != first
    assert [type(child.process) for child in supervisor._children.values()] == [ForkedProcess] * 2
    assert all(is_alive(child.process.pid) for child in supervisor._children.values())
    await supervisor.stop()


async def test_sigterm_ends_no_server_and_is_not_lost_by_a_new_process(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early: list[int] = []

    class Signalled(ForkedProcess):
        def __init__(self, pid: int) -> None:
            super().__init__(pid)
            self.send_signal(signal.SIGTERM)  # it has no order yet
            early.append(pid)

    await report(server, tmp_path / "first", "answer = 1")  # it serves now
    assert server.pid is not None
    os.kill(server.pid, signal.SIGTERM)
    monkeypatch.setattr(module, "ForkedProcess", Signalled)
    child = await Child.spawn(spec(WAIT, tmp_path / "told"), ENVIRONMENT, server)
    assert await child.process.wait() == -signal.SIGTERM
    assert early == [child.process.pid]
    assert is_alive(server.pid)
    assert not (tmp_path / "told").exists()


async def test_server_that_ends_instead_of_an_answer_is_replaced_by_execution(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ForkServer(("-c", "import sys; sys.exit(1)"), ("-c",), ENVIRONMENT, ())
    child = await Child.spawn(spec(WAIT, tmp_path / "told"), ENVIRONMENT, broken)
    await child.wait_ready()
    assert not isinstance(child.process, ForkedProcess)
    assert "w1 is started without the fork server" in caplog.text
    await child.stop(5)
    broken.stop()


async def test_server_that_hangs_is_ended_and_the_process_is_executed(
    server: ForkServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start()
    hung = server.pid
    assert hung is not None
    os.kill(hung, signal.SIGSTOP)
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    child = await Child.spawn(spec(WAIT, tmp_path / "told"), ENVIRONMENT, server)
    await child.wait_ready()
    assert "the fork server does not answer" in caplog.text
    assert not is_alive(hung)
    assert (tmp_path / "told").read_text() == "served "  # once
    await child.stop(5)


async def test_process_without_an_order_ends_by_itself(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nothing runs which the supervisor does not know."""
    orphans: list[int] = []

    class Refused(ForkedProcess):
        def __init__(self, pid: int) -> None:
            orphans.append(pid)
            raise ForkFailed("it is not ours")

    monkeypatch.setattr(module, "ForkedProcess", Refused)
    child = await Child.spawn(spec(WAIT, tmp_path / "told"), ENVIRONMENT, server)
    await child.wait_ready()
    await until(lambda: not is_alive(orphans[0]))
    assert os.waitpid(orphans[0], os.WNOHANG) == (orphans[0], 0)  # noqa: ASYNC222
    assert (tmp_path / "told").read_text() == "served "
    await child.stop(5)


async def test_cancelled_fork_starts_nothing(server: ForkServer, tmp_path: Path) -> None:
    server.start()
    first = server.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    spawning = asyncio.create_task(Child.spawn(spec(WAIT, tmp_path / "told"), ENVIRONMENT, server))
    await asyncio.sleep(0.2)
    spawning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spawning
    assert not is_alive(first)
    assert not (tmp_path / "told").exists()


@pytest.mark.parametrize(("number", "is_replaced"), [(signal.SIGSEGV, True), (signal.SIGKILL, False)])
async def test_memory_error_replaces_the_server_and_so_the_memory_layout(
    server: ForkServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, number: signal.Signals, is_replaced: bool
) -> None:
    caplog.set_level("INFO")
    supervisor = Supervisor(ENVIRONMENT, fork_server=server)
    await supervisor.start(spec(WAIT, tmp_path / "told"))
    first = server.pid
    os.kill(supervisor._children["w1"].process.pid, number)
    await until(lambda: "w1 has restarted" in caplog.messages)
    assert isinstance(supervisor._children["w1"].process, ForkedProcess)
    assert (server.pid != first) is is_replaced
    await supervisor.stop()


async def test_forked_process_that_never_gets_ready_is_stopped(server: ForkServer) -> None:
    supervisor = Supervisor(ENVIRONMENT, fork_server=server)
    with pytest.raises(Unavailable, match="ended with exit code 3 before it was ready"):
        await supervisor.start(spec("import sys; sys.exit(3)"))
    await supervisor.stop()


SUPERVISE = """
import asyncio, os, sys
from postern.gateway.processes.supervisor import Supervisor
from postern.gateway.processes.children import ChildSpec
from tests.support.fork_servers import program_server
async def main():
    server = program_server(os.environ)
    supervisor = Supervisor(os.environ, fork_server=server)
    await supervisor.start(ChildSpec("w1", ("-c", sys.argv[1], sys.argv[2]), preload=("json",)))
    print(server.pid, supervisor._children["w1"].process.pid, flush=True)
    await supervisor.wait()
asyncio.run(main())
"""


def test_server_and_its_processes_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, WAIT, tmp_path / "told"], env=ENVIRONMENT, stdout=subprocess.PIPE
    )
    assert process.stdout
    pids = list(map(int, process.stdout.readline().split()))
    assert all(map(is_alive, pids))
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not any(map(is_alive, pids)))


def test_modules_that_are_loaded_ahead_start_no_thread_and_open_no_file() -> None:
    """Neither would be there, or be of use, in a forked process."""
    modules = list(machine_processes.preloaded_modules())
    program = f"""
import importlib, os
before = set(os.listdir("/proc/self/fd"))
for name in {modules!r}: importlib.import_module(name)
print(len(os.listdir("/proc/self/task")), *sorted(set(os.listdir("/proc/self/fd")) - before))
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], env=ENVIRONMENT, stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"1"]


def test_fork_server_gets_no_settings_and_no_master_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ForkServer, "start", lambda self: None)
    settings = Settings(home=tmp_path, master_key="env:OURS")
    environ = {"OURS": "a key", "POSTERN_METRICS_TOKEN": "a token", "LANG": "C"}
    server = machine_processes.start_fork_server(settings, environ)
    assert server is not None
    assert server._environment == {"LANG": "C"}
    assert machine_processes.start_fork_server(replace(settings, preload=False), environ) is None
