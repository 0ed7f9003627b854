"""Session hooks of a git repository, run by a real agent for the sessions of a whole gateway."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import AgentProcess, connected, connection, enrolled
from tests.support.gits import Bare
from tests.support.postgres import running_server
from tests.support.processes import descendants
from tests.support.promises import PATIENT, wait_until, within
from tests.support.running import Gateway, started

from postern.agent.process_cleanup import processes
from postern.domain.hook import HOOK_SECONDS

pytestmark = pytest.mark.slow

OPEN, CLOSE = "hoop-hooks/session-open.runbook.py", "postern-hooks/session-close.runbook.py"
# The interpreter itself, and no script that stands before it.
PATH = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
WRITES = """
import base64, json, os, sys
told = json.loads(base64.b64decode(os.environ["HOOP_RUNBOOK_HOOK_PAYLOAD"]))
with open({file!r}, "a") as file:
    print(json.dumps([told, dict(os.environ)]), file=file)
print("told of", told["sid"], file=sys.stderr)
"""
STUBBORN = """
import signal, subprocess, time
for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
subprocess.Popen(["setsid", "-f", "sleep", "300"])
print("ready", flush=True)
while True:
    time.sleep(1)
"""


@dataclass
class Books:
    """A repository whose hooks run, at its gateway; `file` is one that a hook may write to."""

    gateway: Gateway
    bare: Bare
    file: Path

    def push(self, opens: str, closes: str = "") -> None:
        """From then on these are the hooks."""
        self.bare.commit({OPEN: opens} | ({CLOSE: closes} if closes else {}))
        done = self.gateway.run("admin", "runbook-repositories", "refresh", str(self.bare.path).strip("/"))
        assert done.returncode == 0, done.stderr

    def writes(self) -> str:
        return WRITES.format(file=str(self.file))

    def told(self) -> list[tuple[dict[str, Any], dict[str, str]]]:
        """What its hooks were told, and their environments."""
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = str(tmp_path_factory.getbasetemp())
    with started("--no-demo", again=True, RUNBOOK_SCHEMES="https,file", RUNBOOK_FOLDERS=folder) as made:
        yield made


@pytest.fixture(scope="module")
def bare(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Bare:
    made = Bare.made(tmp_path_factory.mktemp("hooks") / "books")
    made.commit({OPEN: "print('first')"})
    added = gateway.run("admin", "runbook-repositories", "create", f"file://{made.path}", "--hooks", "1")
    assert added.returncode == 0, added.stderr
    return made


@pytest.fixture
def books(gateway: Gateway, bare: Bare, tmp_path: Path) -> Books:
    return Books(gateway, bare, tmp_path / "written")


@pytest.fixture(scope="module")
def key(gateway: Gateway) -> str:
    """Of the agent that serves the connection `hooked-shell`."""
    found = enrolled(gateway, "hooked")
    made = gateway.run(
        *("connections", "create", "hooked-shell", "--command", "bash", "--agent", "hooked"),
        *("--env", "TOKEN=planted-secret"),
    )
    assert made.returncode == 0, made.stderr
    return found


@contextmanager
def agent(gateway: Gateway, key: str, policy: str = "", **environment: str) -> Iterator[AgentProcess]:
    made = AgentProcess(key, gateway.folder, policy=policy, grace=2, environment={"PATH": PATH, **environment})
    try:
        made.until_it_serves()
        yield made
    finally:
        made.stop(signal.SIGKILL)


def execute(gateway: Gateway, script: str = "echo fine", connection: str = "hooked-shell", code: int = 0) -> str:
    """Runs it and looks that nothing of it is affected; its session."""
    done = gateway.run("exec", connection, "-i", script)
    assert (done.returncode, done.stdout) == (code, "fine\n"), done.stderr
    return newest(gateway)


def newest(gateway: Gateway) -> str:
    found = json.loads(gateway.run("sessions", "list", "--limit", "1", "--json").stdout)["data"]
    return str(found[0]["id"])


def runs(gateway: Gateway, session: str) -> list[dict[str, Any]]:
    done = gateway.run("sessions", "hooks", session, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def ended(gateway: Gateway, session: str, number: int = 1, seconds: float = PATIENT) -> list[dict[str, Any]]:
    def enough() -> list[dict[str, Any]]:
        found = runs(gateway, session)
        return found if len(found) >= number else []

    return wait_until(enough, seconds, every=0.2)


def left(run: dict[str, Any]) -> set[int]:
    """Processes of a hook that are still there."""
    return processes(-1, f"POSTERN_HOOK_ID={run['id']}".encode())


def test_hooks_of_a_script_receive_its_facts_and_no_secrets_and_are_logged(
    gateway: Gateway, key: str, books: Books
) -> None:
    books.push(books.writes(), books.writes() + "sys.exit(told['event_session_close']['exit_code'])")
    with agent(gateway, key, PLANTED="planted-variable"):
        session = execute(gateway, "echo fine; exit 5", code=5)
        opened, closed = ended(gateway, session, 2)
    assert (opened["kind"], opened["exit_code"], opened["output"]) == ("session-open", 0, f"told of {session}\n")
    assert (closed["kind"], closed["exit_code"]) == ("session-close", 5)
    assert opened["commit"] == closed["commit"] == books.bare.head()
    (first, environment), (last, _) = books.told()
    assert (first["id"], first["sid"], last["sid"]) == (opened["id"], session, session)
    event = first["event_session_open"]
    assert (event["verb"], event["connection_name"], event["input"]) == ("exec", "hooked-shell", "echo fine; exit 5")
    assert (event["connection_envs"], event["input_truncated"]) == ({}, False)
    assert last["event_session_close"]["output"] == "failed"
    assert not {"TOKEN", "PLANTED", "POSTERN_KEY", "POSTERN_SESSION_ID"} & environment.keys()
    assert "planted" not in books.file.read_text()
    assert f"session {session}: hook session-close of" in gateway.log
    assert "told of" not in gateway.log


def test_database_session_runs_hooks_until_they_are_disabled(gateway: Gateway, key: str, books: Books) -> None:
    books.push(books.writes(), books.writes())
    with running_server() as server, agent(gateway, key):
        connection(gateway, "hooked-db", "hooked", server.port)
        with connected(gateway, "hooked-db") as client:
            assert client.execute("select 'it is me'").fetchone() == ("it is me",)
            wait_until(books.told, PATIENT)
        found = ended(gateway, newest(gateway), 2)
        (first, _), (last, _) = books.told()
        event = first["event_session_open"]
        assert (event["verb"], event["connection_subtype"], event["input"]) == ("connect", "postgres", "")
        assert (last["event_session_close"]["exit_code"], last["event_session_close"]["output"]) == (0, "client_closed")
        assert [run["exit_code"] for run in found] == [0, 0]
        switch(gateway, books, "0")
        session = execute(gateway)
        switch(gateway, books, "1")
        other = execute(gateway)
        ended(gateway, other, 2)
        assert (runs(gateway, session), len(books.told())) == ([], 4)


def switch(gateway: Gateway, books: Books, seconds: str) -> None:
    done = gateway.run("admin", "runbook-repositories", "update", str(books.bare.path).strip("/"), "--hooks", seconds)
    assert done.returncode == 0, done.stderr


@pytest.mark.huge
def test_attack_hook_that_hangs_and_forks_is_killed_with_its_processes(
    gateway: Gateway, key: str, books: Books
) -> None:
    books.push(STUBBORN)
    with agent(gateway, key):
        session = execute(gateway)  # which ends long before its hook
        assert runs(gateway, session) == []
        books.push("print('mine')")
        other = execute(gateway)
        assert ended(gateway, other)[0]["output"] == "mine\n"
        [run] = ended(gateway, session, seconds=within(HOOK_SECONDS + 10) + HOOK_SECONDS)
        assert (run["exit_code"], run["output"]) == (None, "ready\n")
        assert run["reason"] == "it did not finish within 1 minute and was terminated"
        assert run["seconds"] >= HOOK_SECONDS
        assert left(run) == set()


@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        ("for _ in range(100): print('x' * 1_000_000)", 0, "[output truncated]"),
        ("import subprocess\nfor _ in range(20): subprocess.Popen(['sleep', '300'])", 0, ""),
        ("echo 'I am a shell script' | wc", 1, "SyntaxError: invalid syntax"),
        ("import no_such_module", 1, "No module named 'no_such_module'"),
    ],
    ids=["100 MB", "children", "no Python", "fails"],
)
def test_attack_hook_with_much_output_or_many_processes_is_bounded(
    gateway: Gateway, key: str, books: Books, script: str, code: int, printed: str
) -> None:
    books.push(script)
    with agent(gateway, key):
        [run] = ended(gateway, execute(gateway))
        assert (run["exit_code"], run["output"].rstrip().endswith(printed)) == (code, True)
        assert len(run["output"]) <= 4096
        assert left(run) == set()


def test_agent_that_cannot_run_hooks_reports_the_reason(
    gateway: Gateway, key: str, books: Books, tmp_path: Path
) -> None:
    """The policy forbids it, Python is missing, the agent is built in, or it declares its connection."""
    books.push(books.writes())
    with agent(gateway, key, "hooks = false"):
        refused = ended(gateway, execute(gateway))
    assert "policy does not allow session hooks" in refused[0]["reason"]
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "bash").symlink_to(bash)
    with agent(gateway, key, PATH=str(tmp_path)):
        missing = ended(gateway, execute(gateway))
    assert missing[0]["reason"] == "'python3' does not exist on the agent's machine, or is not executable"
    with running_server() as server:
        connection(gateway, "own-db", "embedded", server.port)
        with connected(gateway, "own-db") as client:
            client.execute("select 1")
        own = ended(gateway, newest(gateway))
    assert (
        "the built-in agent runs no commands or hooks, because they could read the gateway's keys" in own[0]["reason"]
    )
    declared = ("--name", "declared-shell", "--", "bash")
    inner = AgentProcess(
        enrolled(gateway, "inner", mode="embedded"), gateway.folder, declares=declared, environment={"PATH": PATH}
    )
    try:
        inner.until_it_serves()
        nothing = ended(gateway, execute(gateway, connection="declared-shell"))
    finally:
        inner.stop(signal.SIGKILL)
    assert "policy does not allow session hooks" in nothing[0]["reason"]
    assert [run["exit_code"] for run in (*refused, *missing, *own, *nothing)] == [None] * 4
    assert books.told() == []


def test_hook_interrupted_by_a_lost_agent_or_a_stopped_gateway_reports_the_reason(
    gateway: Gateway, key: str, books: Books
) -> None:
    books.push("import time; time.sleep(300)")
    with agent(gateway, key) as served:
        session = execute(gateway)
        wait_until(lambda: hook_processes(served), PATIENT)
        served.stop(signal.SIGKILL)
        [run] = ended(gateway, session)
    assert (run["exit_code"], "the tunnel was lost" in run["reason"]) == (None, True)
    with agent(gateway, key) as served:
        session = execute(gateway)
        wait_until(lambda: hook_processes(served), PATIENT)
        gateway.stop()
        wait_until(lambda: not hook_processes(served), PATIENT)
    gateway.start()
    [run] = ended(gateway, session)
    assert (run["exit_code"], run["reason"]) == (None, "the gateway stopped before the hook finished")


def hook_processes(served: AgentProcess) -> list[int]:
    return descendants(served.process.pid)
