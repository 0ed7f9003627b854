"""A runbook from a real git server, by a user's command line, through worker and agent, to PostgreSQL and a shell."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.agents import AgentProcess, connection, enrolled
from tests.support.gits import Bare, forge
from tests.support.postgres import PostgresServer
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow

REPOS = ("admin", "runbook-repositories")
PIA, DBA = "pia@example.com", "dba@example.com"
ROBOT, TOKEN = "robot", "planted-token-of-git"
SECRET = "planted-value-of-pia"
FIND = "users/find.runbook.sql"
FILES = {
    FIND: "select id, name from road_users where name = {{ .name | required `say who` | squote }}",
    "say.runbook.sh": "printf '%s\\n' {{ .word | squote }} {{ .word | dquote }}\n",
    "call.runbook.sh": 'printf "%s" "${API_TOKEN}" | wc -c{{ .token | type "password" | asenv "API_TOKEN" }}\n',
}
OTHER = {**FILES, FIND: "select 'another commit', {{ .name | squote }}"}


@dataclass
class Road:
    gateway: Gateway
    agent: AgentProcess
    books: Bare
    name: str  # of the repository

    def ok(self, *words: str, stdin: str | None = None) -> str:
        done = self.gateway.run(*words, stdin=stdin)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def run(self, file: str, where: str, **parameters: str) -> str:
        """What it printed, by an ordinary user."""
        given = [word for name, value in parameters.items() for word in ("-p", f"{name}={value}")]
        shape = () if where == "shell" else ("--format", "csv")
        return self.ok("runbooks", "run", file, "-c", where, *given, *shape, "--no-input", "--profile", "pia")

    def newest(self, where: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(
            self.ok("sessions", "list", "--connection", where, "--limit", "1", "--json")
        )["data"]
        return found[0]

    def pushed(self, files: dict[str, str]) -> str:
        """The commit, once the gateway was told to read it."""
        commit = self.books.commit(files)
        assert f"It is at commit {commit}" in self.ok(*REPOS, "refresh", self.name)
        return commit


@pytest.fixture(scope="module")
def road(target: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    folder = tmp_path_factory.mktemp("forge")
    # Nobody reads in the background: what is pushed is shown when somebody has it read.
    more = {"RUNBOOK_NETWORKS": "127.0.0.1,::1", "RUNBOOK_INTERVAL": "86400"}
    with (
        forge(folder) as server,
        started("--no-demo", RUNBOOK_CA=str(server.authority), again=False, **more) as gateway,
    ):
        server.users[ROBOT] = TOKEN
        books = server.repository()
        books.commit(FILES)
        agent = AgentProcess(enrolled(gateway, "edge"), gateway.folder)
        try:
            agent.until_it_serves()
            url = f"{server.url}/team/runbooks.git"
            made = Road(gateway, agent, books, url.removeprefix("https://").removesuffix(".git"))
            made.ok(*REPOS, "create", url, "--user", ROBOT, "--password-file", "-", stdin=TOKEN)
            connection(gateway, "orders", "edge", target.port)
            connection(gateway, "reviewed", "edge", target.port)
            made.ok("connections", "update", "reviewed", "--set", "reviewers=dba")
            made.ok("connections", "create", "shell", "--command", "bash --norc", "--agent", "edge")
            for email, group, profile in ((PIA, "dev", "pia"), (DBA, "dba", "dba")):
                password = secrets.token_urlsafe(20)
                made.ok("admin", "users", "create", email, "--group", group, "--password-stdin", stdin=password)
                login = ("login", gateway.told["api_url"], "--email", email, "--password-stdin", "--profile", profile)
                made.ok(*login, stdin=password)
            yield made
        finally:
            agent.stop(signal.SIGKILL)


@pytest.fixture(autouse=True)
def users(direct: psycopg.Connection) -> Iterator[None]:
    direct.execute("create table road_users (id int, name text)")
    direct.execute("insert into road_users values (1, 'ann'), (2, 'o''hara')")
    yield
    direct.execute("drop table road_users")


@pytest.fixture(autouse=True)
def files(road: Road) -> str:
    """Their commit, which each test begins at."""
    return road.pushed(FILES)


def test_parameter_stays_one_sql_value_and_the_session_records_the_runbook(
    road: Road, files: str, direct: psycopg.Connection
) -> None:
    assert road.run(FIND, "orders", name="o'hara") == "id,name\n2,o'hara\n"
    found = road.newest("orders")
    assert (found["user"], found["status"], found["exit_code"]) == (PIA, "done", 0)
    assert found["labels"]["runbookRepository"] == road.name
    assert (found["labels"]["runbookFile"], found["labels"]["runbookCommit"]) == (FIND, files)
    assert json.loads(found["labels"]["runbookParameters"]) == {"name": "o'hara"}
    for hostile in ("x'; drop table road_users; --", "x' or '1'='1", "\\'; drop table road_users; --"):
        assert road.run(FIND, "orders", name=hostile) == "id,name\n"
    assert direct.execute("select count(*) from road_users").fetchone() == (2,)


def test_parameter_stays_one_shell_word_and_a_secret_is_stored_nowhere(road: Road, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for hostile in (f"$(touch {mark})", f"'; touch {mark}; '", f'"; touch {mark}; "', f"`touch {mark}`"):
        assert road.run("say.runbook.sh", "shell", word=hostile) == f"{hostile}\n{hostile}\n"
    assert not mark.exists()
    assert road.run("call.runbook.sh", "shell", token=SECRET).strip() == str(len(SECRET))
    found = road.newest("shell")
    assert json.loads(found["labels"]["runbookParameters"]) == {"token": "***"}
    told = (road.ok("sessions", "show", found["id"], "--json"), road.ok(*REPOS, "list", "--json"))
    for place in (*told, road.gateway.log, road.agent.log):
        assert SECRET not in place
        assert TOKEN not in place


def test_pushed_runbook_is_listed_and_runs_once_the_repository_is_read(road: Road, files: str) -> None:
    new = {**FILES, "new.runbook.sh": "echo new\n"}
    commit = road.books.commit(new)
    listed = ("runbooks", "list", "--profile", "pia")
    assert "/new.runbook.sh" not in road.ok(*listed)
    missing = road.gateway.run("runbooks", "run", "new.runbook.sh", "-c", "shell", "--profile", "pia")
    assert (missing.returncode, missing.stdout) == (5, "")
    assert f"It is at commit {commit}" in road.ok(*REPOS, "refresh", road.name)
    assert "/new.runbook.sh" in road.ok(*listed)
    assert road.run("new.runbook.sh", "shell") == "new\n"
    assert road.newest("shell")["labels"]["runbookCommit"] == commit
    older = ("runbooks", "run", "new.runbook.sh", "-c", "shell", "--commit", files, "--profile", "pia")
    refused = road.gateway.run(*older)
    assert (refused.returncode != 0, refused.stdout, commit[:7] in refused.stderr) == (True, "", True)


def test_reviewed_runbook_runs_at_its_reviewed_commit_after_a_push(road: Road, files: str) -> None:
    words = ("runbooks", "run", FIND, "-c", "reviewed", "-p", "name=ann", "--no-wait", "--profile", "pia")
    assert road.gateway.run(*words).returncode == 7
    waits = road.newest("reviewed")["id"]
    road.pushed(OTHER)
    assert "another commit" in road.run(FIND, "orders", name="ann")
    road.ok("reviews", "approve", waits, "--profile", "dba")
    shown = road.ok("runbooks", "run", "--resume", waits, "--format", "csv", "--profile", "pia")
    assert shown == "id,name\n1,ann\n"
    found = road.newest("reviewed")
    assert (found["id"], found["labels"]["runbookCommit"], found["exit_code"]) == (waits, files, 0)
