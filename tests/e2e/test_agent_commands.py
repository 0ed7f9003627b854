"""Commands through an agent in a separate process behave as with the built-in agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.agents import AgentProcess, enrolled
from tests.support.promises import wait_until, within
from tests.support.running import Gateway, started

from postern.agent.process_cleanup import processes

pytestmark = pytest.mark.slow


def served(gateway: Gateway, key: str, policy: str = "") -> AgentProcess:
    """Once it serves; it has a variable that no command of it may see."""
    made = AgentProcess(key, gateway.folder, policy=policy, grace=2, environment={"PLANTED": "planted"})
    made.until_it_serves()
    return made


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo") as made:
        yield made


@pytest.fixture(scope="module")
def key(gateway: Gateway) -> str:
    """Of the agent `edge`; the connection `far` is its."""
    found = enrolled(gateway, "edge")
    made = gateway.run(
        *("connections", "create", "far", "--command", "bash", "--agent", "edge"),
        *("--env", "TOKEN=planted-secret", "--redact", "EMAIL_ADDRESS"),
    )
    assert made.returncode == 0, made.stderr
    return found


@pytest.fixture
def agent(gateway: Gateway, key: str) -> Iterator[AgentProcess]:
    made = served(gateway, key)
    yield made
    made.stop(signal.SIGKILL)


def begun(gateway: Gateway, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "postern", *arguments],
        env=gateway.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def alive(gateway: Gateway) -> set[int]:
    """The processes of the newest session."""
    found = json.loads(gateway.run("sessions", "list", "--limit", "1", "--json").stdout)["data"]
    return processes(-1, f"POSTERN_SESSION_ID={found[0]['id']}".encode()) if found else set()


def test_script_runs_at_the_agent_with_masked_output_and_its_exit_code(gateway: Gateway, agent: AgentProcess) -> None:
    script = "echo ${#TOKEN} $PLANTED; printf 'ann@exa'; sleep 0.3; echo mple.com; echo err >&2; exit 6"
    done = gateway.run("exec", "far", "-i", script)
    assert (done.returncode, done.stdout) == (6, "14\n****@****\n")
    assert done.stderr.startswith("err\n")


def test_twenty_mb_through_a_command_at_the_agent_arrive_unchanged(gateway: Gateway, agent: AgentProcess) -> None:
    data = os.urandom(1 << 20).hex().encode() * 10
    process = begun(gateway, "connect", "far", "--", "-c", "cat")
    shown, said = process.communicate(data, 300)
    assert (process.returncode, said) == (0, b"")
    assert shown == data


def test_killed_agent_leaves_no_command_running(gateway: Gateway, agent: AgentProcess) -> None:
    process = begun(gateway, "connect", "far", "--", "-c", "echo ready; exec sleep 300")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert alive(gateway)
    agent.stop(signal.SIGKILL)
    wait_until(lambda: not alive(gateway), within(2))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 255
    assert b"postern: " in said


def test_stopping_agent_kills_commands_that_ignore_signals(gateway: Gateway, agent: AgentProcess) -> None:
    stubborn = "trap '' TERM HUP; (trap '' TERM HUP; sleep 300) & echo ready; while :; do sleep 0.1; done"
    process = begun(gateway, "connect", "far", "--", "-c", stubborn)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert agent.stop() == 0
    wait_until(lambda: not alive(gateway))
    process.communicate(timeout=60)
    assert process.returncode == 255


def test_command_connection_of_the_built_in_agent_gets_a_warning_and_is_denied_on_use(
    gateway: Gateway,
) -> None:
    made = gateway.run("connections", "create", "near", "--command", "bash", "--agent", "embedded")
    assert (made.returncode, "near cannot be used yet" in made.stderr) == (0, True), made.stderr
    refused = gateway.run("exec", "near", "-i", "echo ran")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "`postern connections update near --agent NAME`; or, where nobody else" in refused.stderr
    assert "POSTERN_GATEWAY_COMMANDS=true" in refused.stderr


def test_attack_agent_policy_forbids_a_command_that_the_gateway_orders(gateway: Gateway, key: str) -> None:
    agent = served(gateway, key, "commands = false\n")
    try:
        done = gateway.run("exec", "far", "-i", "echo ran")
        assert done.returncode == 1
        assert "ran" not in done.stdout.splitlines()
        assert "policy" in done.stderr
    finally:
        agent.stop()


def test_attack_agent_policy_forbids_a_secret_reference_of_the_gateway(gateway: Gateway, key: str) -> None:
    policy = 'references = ["_envjson:SHOP:user"]\n'
    agent = AgentProcess(
        key, gateway.folder, policy=policy, grace=2, environment={"SHOP": '{"user": "ann", "password": "planted"}'}
    )
    agent.until_it_serves()
    try:
        for name in ("user", "password"):
            made = gateway.run(
                *("connections", "create", f"shop-{name}", "--command", "bash", "--agent", "edge"),
                *("--env", f"VALUE=_envjson:SHOP:{name}"),
            )
            assert made.returncode == 0, made.stderr
        assert gateway.run("exec", "shop-user", "-i", "echo $VALUE").stdout == "ann\n"
        done = gateway.run("exec", "shop-password", "-i", "echo $VALUE")
        assert (done.returncode, "planted" in done.stdout + done.stderr) == (1, False)
        assert "the agent's policy does not allow the reference _envjson:SHOP:password" in done.stdout + done.stderr
    finally:
        agent.stop()
