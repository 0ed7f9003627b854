"""Batches of pgx (Go) and JDBC (Java): through the gateway they get the same answers as from the target."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer

from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.targets.connection import Connection

pytestmark = pytest.mark.slow

DRIVERS = Path(__file__).parent / "drivers"
JDBC = "org.postgresql:postgresql:42.7.8"
REVIEW = Rule(RuleType.REQUIRE_WHERE, name="where", action=Action.REVIEW, unknown=Unknown.ALLOW)
POLICIES = ("no-rule", "masking", "deny", "review")


@pytest.fixture(scope="module", autouse=True)
def policies(gateway: Gateway, target: PostgresServer) -> dict[str, Connection]:
    made = {name: gateway.connection(f"drivers-{name}", target, redact_enabled=name == "masking") for name in POLICIES}
    gateway.guardrail("drivers deny", made["deny"], deny=r"(?i)drop\s+table")
    fields = {"name": "drivers review", "input": (REVIEW,), "connection_ids": (str(made["review"].id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return made


@pytest.fixture(scope="module")
def pgx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client of pgx, built."""
    program = tmp_path_factory.mktemp("pgx") / "batches"
    run([need("go", "golang-go"), "build", "-o", str(program), "."], DRIVERS / "pgx")
    return program


@pytest.fixture(scope="module")
def jdbc(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How the client of JDBC is started."""
    folder = tmp_path_factory.mktemp("jdbc")
    maven = [need("mvn", "maven"), "-q", "-B", "dependency:copy", f"-Dartifact={JDBC}", f"-DoutputDirectory={folder}"]
    run(maven, folder)
    run([need("javac", "default-jdk-headless"), "-d", str(folder), str(DRIVERS / "jdbc" / "Batches.java")], folder)
    return [need("java", "default-jdk-headless"), "-cp", f"{folder}:{folder}/*", "Batches"]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, env=clean_environment(), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def jdbc_url(url: str) -> str:
    """A libpq URL as JDBC writes it."""
    found = re.fullmatch(r"postgresql://(?:([^:@]*)(?::([^@]*))?@)?([^/]+)/([^?]*).*", url)
    assert found is not None
    user, password, host, database = found.groups()
    return f"jdbc:postgresql://{host}/{database}?sslmode=disable&user={user}&password={password or ''}"


@pytest.mark.parametrize("policy", POLICIES)
def test_pgx_gets_the_same_answers_through_the_gateway(
    gateway: Gateway, target: PostgresServer, pgx: Path, policy: str
) -> None:
    alone = run([str(pgx), f"{target.dsn()}?sslmode=disable"], pgx.parent)
    assert alone.endswith("statement_timeout 57014 5003\nearly error 22012 ok\n")
    assert run([str(pgx), gateway.url(f"drivers-{policy}")], pgx.parent) == alone


@pytest.mark.parametrize("policy", POLICIES)
def test_jdbc_gets_the_same_answers_through_the_gateway(
    gateway: Gateway, target: PostgresServer, jdbc: list[str], policy: str, tmp_path: Path
) -> None:
    alone = run([*jdbc, jdbc_url(target.dsn())], tmp_path)
    assert "\nstatement_timeout 57014 " in alone
    assert run([*jdbc, jdbc_url(gateway.url(f"drivers-{policy}"))], tmp_path) == alone
