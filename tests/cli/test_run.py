"""`postern run` as it is typed: what it refuses before anything is dialled, and what it makes of the rest."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from postern.cli.main import cli
from postern.domain.targets.agent import AgentKey, AgentMode
from postern.domain.targets.connection import ConnectionType
from postern.domain.targets.declaration import Declaration
from postern.services.targets.agent_keys import make_secret
from postern.wiring.processes import agent_process as wiring

KEY = AgentKey("web", make_secret(), "gate.example", 7444, AgentMode.EMBEDDED)
ENVIRON = {
    "POSTERN_KEY": KEY.text().reveal(),
    "DATABASE_URL": "postgres://app:planted@db.example/orders",
    "MYSQL_URL": "mysql://app:planted@db.example/orders",
    "APP_TOKEN": "t",
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Declaration]:
    """What would have been declared."""
    found: list[Declaration] = []

    def serve(_key: object, _reach: object, _grace: float, declaration: Declaration) -> None:
        found.append(declaration)

    monkeypatch.setattr(wiring, "serve", serve)
    return found


def run(*arguments: str, **environ: str | None) -> Result:
    return CliRunner().invoke(cli, ["run", *arguments], env={**ENVIRON, **environ})


def test_a_command(served: list[Declaration]) -> None:
    options = ("--review", "dba", "--redact", "US_SSN", "--tag", "stage=prod", "--export", "APP_*")
    assert run("--name", "shop-shell", *options, "--", "sh", "-c", "exit 3").exit_code == 0
    [one] = served
    assert one == Declaration(
        "shop-shell", ConnectionType.CUSTOM, "", ("sh", "-c", "exit 3"), ("dba",), ("US_SSN",), {"stage": "prod"}
    )
    assert run("--name", "shop-shell", "sh", "--name", "x").exit_code == 0  # the command's own
    assert served[1].command == ("sh", "--name", "x")


def test_a_database(served: list[Declaration]) -> None:
    assert run("--name", "orders", "--postgres", "DATABASE_URL").exit_code == 0
    assert run("--name", "orders", "--mysql", "MYSQL_URL").exit_code == 0
    assert served == [
        Declaration("orders", ConnectionType.DATABASE, kind, default_database="orders")
        for kind in ("postgres", "mysql")
    ]


def test_a_server_of_databases(served: list[Declaration]) -> None:
    assert run("--name", "orders", "--mysql", "MYSQL_URL", MYSQL_URL="mariadb://app@db.example").exit_code == 0
    assert served == [Declaration("orders", ConnectionType.DATABASE, "mysql")]


def test_its_name_is_the_host_name(served: list[Declaration], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "web-7d9f.example")
    assert run("--", "sh").exit_code == 0
    assert served[0].name == "web-7d9f.example"
    monkeypatch.setattr(socket, "gethostname", lambda: "web--1")
    refused = run("--", "sh")
    assert refused.exit_code == 2
    assert "host name, 'web--1', is not a valid name of a connection; give one with --name" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give either a command"),
        (("--postgres", "DATABASE_URL", "--", "sh"), 2, "not both"),
        (("--postgres", "DATABASE_URL", "--mysql", "MYSQL_URL"), 2, "not both"),
        (("--mysql", "mysql://app:planted@db.example/orders"), 2, "give --mysql DATABASE_URL"),
        (("--mysql", "DATABASE_URL"), 1, "does not contain a URI such as mysql://"),
        (("--postgres", "postgres://app:planted@db.example/orders"), 2, "all users of this machine"),
        (("--postgres", "app:planted"), 2, "takes the name of a variable"),
        (("--postgres", "NONE"), 1, "variable NONE is not set"),
        (("--postgres", "APP_TOKEN"), 1, "variable APP_TOKEN does not contain a URI"),
        (("--postgres", "DATABASE_URL", "--export", "APP_*"), 2, "--export is for commands"),
        (("--export", "POSTERN_*", "--", "sh"), 1, "are the agent's own"),
        (("--export", "NONE*", "--", "sh"), 1, "no variable matches it"),
        (("--tag", "planted", "--", "sh"), 2, "--tag: write it as KEY=VALUE"),
        (("--tag", "a=\x1b", "--", "sh"), 1, "connection_tags"),
        (("--redact", "EVERYTHING", "--", "sh"), 1, "use one of AGE"),
        (("--review", "", "--", "sh"), 1, "reviewers"),
        (("--", "no-such-program"), 1, "command 'no-such-program' does not exist"),
        (("--policy", "/none.toml", "--", "sh"), 1, "cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_at_once_without_a_secret(
    served: list[Declaration], arguments: tuple[str, ...], code: int, said: str
) -> None:
    refused = run("--name", "shop", *arguments)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr
    assert "planted" not in refused.output
    assert not served


@pytest.mark.parametrize("name", ["a", "a b", "a\nb", "46cfa881-829d-448d-b9ee-a2aab544c189"])
def test_a_name_that_is_none(served: list[Declaration], name: str) -> None:
    refused = run("--name", name, "--", "sh")
    assert (refused.exit_code, "name" in refused.stderr, served) == (1, True, [])


def test_the_mode_of_the_key_is_looked_at_before_the_gateway_is(served: list[Declaration], tmp_path: Path) -> None:
    standard = AgentKey("web", KEY.secret, "gate.example", 7444).text().reveal()
    refused = run("--name", "shop", "--", "sh", POSTERN_KEY=standard)
    assert (refused.exit_code, "`postern agent`" in refused.stderr) == (1, True)
    other: Any = CliRunner().invoke(cli, ["agent"], env=ENVIRON)
    assert (other.exit_code, "`postern run -- COMMAND`" in other.stderr) == (1, True)
    missing = run("--name", "shop", "--", "sh", POSTERN_KEY=None)
    assert (missing.exit_code, "POSTERN_KEY is not set" in missing.stderr) == (1, True)
    assert not served
