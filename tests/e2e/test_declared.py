"""`postern run` in a separate process: an agent that declares its connection at a whole gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from tests.support.agents import AgentProcess, connected, enrolled
from tests.support.planted import in_export, in_files, in_processes, spellings
from tests.support.postgres import PostgresServer, need_server
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow

HBA = ["host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256"]
PASSWORD = f"planted/{uuid4().hex}+&"
HIDDEN = f"hidden-{uuid4().hex}"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo", again=True, LOG_LEVEL="debug") as made:
        yield made


@pytest.fixture(scope="module")
def key(gateway: Gateway) -> str:
    return enrolled(gateway, "web", mode="embedded")


@pytest.fixture
def shell(gateway: Gateway, key: str) -> Iterator[AgentProcess]:
    """It declares `web-shell`."""
    made = declaring(gateway, key, "web-shell")
    made.until_it_serves()
    yield made
    made.stop(signal.SIGKILL)


def declaring(gateway: Gateway, key: str, name: str, *options: str, before: tuple[str, ...] = ()) -> AgentProcess:
    declares = ("--name", name, "--export", "APP_*", "--redact", "EMAIL_ADDRESS", *options, "--", "bash")
    variables = {"APP_TOKEN": "exported", "HIDDEN": HIDDEN}
    return AgentProcess(key, gateway.folder, *before, declares=declares, grace=2, environment=variables)


def shown(gateway: Gateway, name: str) -> dict[str, Any]:
    done = gateway.run("connections", "show", name, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def last_words(process: AgentProcess, seconds: float = 60) -> str:
    wait_until(lambda: process.process.poll() is not None, seconds)
    return process.log.splitlines()[-1]


def test_declared_command_sees_only_exported_variables(gateway: Gateway, shell: AgentProcess) -> None:
    done = gateway.run("exec", "web-shell", "-i", "echo $APP_TOKEN.$HIDDEN.$POSTERN_KEY; echo ann@example.com; exit 5")
    assert (done.returncode, done.stdout) == (5, "exported..\n****@****\n")
    everything = gateway.run("exec", "web-shell", "-i", "env").stdout
    assert "APP_TOKEN=exported" in everything
    assert HIDDEN not in everything
    assert "POSTERN_KEY" not in everything
    assert "xagt-" not in everything
    given = gateway.run(
        "exec", "web-shell", "-e", "APP_TOKEN=another", "-e", "MORE=given", "-i", "echo $APP_TOKEN $MORE"
    )
    assert given.stdout == "exported given\n"


def test_attack_declared_command_cannot_read_the_environment_of_its_agent(gateway: Gateway, key: str) -> None:
    """As an unprivileged user, or as root in a container without these capabilities."""
    unprivileged = ("setpriv", "--bounding-set", "-sys_ptrace,-perfmon,-sys_admin") if os.geteuid() == 0 else ()
    agent = declaring(gateway, key, "web-shell", before=unprivileged)
    try:
        agent.until_it_serves()
        pid = agent.process.pid
        for name in ("environ", "mem", "maps"):
            done = gateway.run("exec", "web-shell", "-i", f"head -c1 /proc/{pid}/{name}; head -c1 /proc/$PPID/{name}")
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.count("Permission denied") == 2, done.stderr
        own = gateway.run("exec", "web-shell", "-i", "sleep 9 & head -c4 /proc/$!/environ")
        assert own.returncode == 0  # it can look where nothing is hidden
        assert "Permission denied" not in own.stderr
    finally:
        agent.stop()


def test_declared_connection_is_shown_and_only_its_agent_can_change_it(gateway: Gateway, shell: AgentProcess) -> None:
    one = shown(gateway, "web-shell")
    assert (one["managed_by"], one["type"], one["subtype"], one["command"]) == ("agent:web", "custom", "", ["bash"])
    assert (one["redact_types"], one["secret"], one["status"]) == (["EMAIL_ADDRESS"], {}, "online")
    refused = gateway.run("connections", "update", "web-shell", "--tag", "a=b")
    assert (refused.returncode, "managed by agent:web; change it there" in refused.stderr) == (1, True)
    other = gateway.run("connections", "create", "other", "--command", "bash", "--agent", "web")
    assert (other.returncode, "serves only what it declares" in other.stderr) == (1, True)
    entries = json.loads(gateway.run("admin", "audit", "list", "--json").stdout)["data"]
    entry = [entry for entry in entries if entry["actor_subject"] == "agent:web"][-1]
    assert (entry["http_method"], entry["action"], entry["resource"]) == ("CONTROL", "create", "web-shell")


def test_piped_input_to_a_declared_command_is_recorded(gateway: Gateway, shell: AgentProcess) -> None:
    command = [sys.executable, "-m", "postern", "connect", "web-shell", "--", "-c", "cat; echo $APP_TOKEN; exit 7"]
    done = subprocess.run(
        command, env=gateway.environment, input="on-record\n", capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (7, "on-record\nexported\n")
    newest = json.loads(gateway.run("sessions", "list", "--limit", "1", "--json").stdout)["data"][0]
    assert newest["connection"] == "web-shell"
    assert "on-record" in gateway.run("sessions", "show", newest["id"]).stdout


def test_guardrail_on_a_declared_connection_survives_a_new_declaration(
    gateway: Gateway, key: str, shell: AgentProcess
) -> None:
    rule = {"type": "pattern_match", "pattern_regex": "forbidden", "name": "no"}
    body = {"name": "no", "input": {"rules": [rule]}, "connection_ids": [shown(gateway, "web-shell")["id"]]}
    made = gateway.run("guardrails", "create", "-", stdin=json.dumps(body))
    assert made.returncode == 0, made.stderr
    assert gateway.run("exec", "web-shell", "-i", "echo forbidden").returncode == 1
    shell.stop()
    again = declaring(gateway, key, "web-shell", "--tag", "env=test")
    try:
        again.until_it_serves()
        assert shown(gateway, "web-shell")["connection_tags"] == {"env": "test"}
        done = gateway.run("exec", "web-shell", "-i", "echo forbidden")
        assert (done.returncode, "forbidden" in done.stdout) == (1, False)
        assert gateway.run("exec", "web-shell", "-i", "echo allowed").stdout == "allowed\n"
    finally:
        again.stop()


@pytest.mark.slow
def test_agent_declares_its_connection_again_to_a_restarted_gateway(gateway: Gateway, shell: AgentProcess) -> None:
    before, audited = shell.log.count("is open"), gateway.run("admin", "audit", "list", "--json").stdout
    assert gateway.stop(signal.SIGTERM) == 0
    gateway.start()
    wait_until(lambda: shell.log.count("is open") > before, 120)
    assert gateway.run("exec", "web-shell", "-i", "echo here").stdout == "here\n"
    told = [json.loads(text)["data"] for text in (audited, gateway.run("admin", "audit", "list", "--json").stdout)]
    by_agent = [[one["id"] for one in entries if one["actor_subject"] == "agent:web"] for entries in told]
    assert by_agent[0] == by_agent[1]  # nothing had changed


def test_second_instance_of_a_declaring_agent_serves_beside_the_first(
    gateway: Gateway, key: str, shell: AgentProcess
) -> None:
    second = declaring(gateway, key, "web-shell")
    try:
        second.until_it_serves()
        shell.stop()
        assert gateway.run("exec", "web-shell", "-i", "echo second").stdout == "second\n"
    finally:
        second.stop()


@pytest.mark.slow
def test_instance_that_declares_another_name_waits_until_the_others_stop(
    gateway: Gateway, key: str, shell: AgentProcess
) -> None:
    other = declaring(gateway, key, "web-other")
    try:
        wait_until(lambda: "an instance of agent 'web' serves connection 'web-shell'" in other.log, 60)
        assert other.process.poll() is None
        shell.stop()
        wait_until(lambda: "a tunnel to" in other.log, 120)
        assert gateway.run("connections", "show", "web-shell").returncode == 5
        assert gateway.run("exec", "web-other", "-i", "echo other").stdout == "other\n"
    finally:
        other.stop()


def test_attack_agent_cannot_declare_a_connection_of_another_agent(gateway: Gateway) -> None:
    enrolled(gateway, "edge")
    assert gateway.run("connections", "create", "taken", "--command", "bash", "--agent", "edge").returncode == 0
    thief = declaring(gateway, enrolled(gateway, "thief", mode="embedded"), "taken")
    assert "a connection 'taken' already exists, and agent 'thief' did not declare it" in last_words(thief)
    assert thief.process.returncode == 1
    assert shown(gateway, "taken")["managed_by"] is None


def test_agent_key_of_the_wrong_mode_is_rejected_at_start(gateway: Gateway, key: str) -> None:
    plain = declaring(gateway, enrolled(gateway, "plain"), "web-plain")
    assert "postern agent" in last_words(plain)
    agent = AgentProcess(key, gateway.folder)
    assert "postern run" in last_words(agent)
    # The gateway does not take their word for it.
    agent = AgentProcess(key.replace("mode=embedded", "mode=standard"), gateway.folder)
    assert "must declare its connection" in last_words(agent)
    plain = declaring(gateway, enrolled(gateway, "other-plain").replace("mode=standard", "mode=embedded"), "web-plain")
    assert "is not embedded" in last_words(plain)
    assert gateway.run("connections", "show", "web-plain").returncode == 5


def test_deleted_agent_ends_and_its_declared_connection_is_removed(gateway: Gateway) -> None:
    one = declaring(gateway, enrolled(gateway, "gone", mode="embedded"), "gone-shell")
    one.until_it_serves()
    assert gateway.run("admin", "agents", "delete", "gone", "--yes").returncode == 0
    last_words(one)
    assert one.process.returncode == 3
    assert "Traceback" not in one.log
    assert gateway.run("connections", "show", "gone-shell").returncode == 5


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    need_server()
    server = PostgresServer(hba=HBA)
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(f"create user app password '{PASSWORD}'")
            admin.execute("create database orders owner app")
        yield server
    finally:
        server.stop()


def test_password_of_a_declared_database_never_leaves_its_agent(gateway: Gateway, database: PostgresServer) -> None:
    uri = f"postgres://app:{quote(PASSWORD, safe='')}@127.0.0.1:{database.port}/orders?sslmode=disable"
    declares = ("--name", "orders", "--postgres", "APP_DATABASE", "--redact", "EMAIL_ADDRESS")
    key = enrolled(gateway, "orders-app", mode="embedded")
    agent = AgentProcess(key, gateway.folder, declares=declares, environment={"APP_DATABASE": uri})
    try:
        agent.until_it_serves()
        with connected(gateway, "orders") as client:
            found = client.execute("select current_user, current_database(), 'ann@example.com'").fetchone()
            assert found == ("app", "orders", "****@****")
            everything = {**in_processes("cmdline"), **in_files(gateway.folder)}
        assert (
            gateway.run("exec", "orders", "-i", "select current_user as who", "--format", "csv").stdout == "who\napp\n"
        )
        assert json.loads(gateway.run("connections", "test", "orders", "--json").stdout) == {"success": True}
        everything |= in_files(gateway.folder) | in_export(gateway)
        everything["shown"] = json.dumps(shown(gateway, "orders")).encode()
        assert shown(gateway, "orders")["default_database"] == "orders"
        assert not [
            where for where, content in everything.items() if any(one in content for one in spellings(PASSWORD))
        ]
        assert [where for where, content in everything.items() if b"orders-app" in content]  # it searched the store
    finally:
        agent.stop()
