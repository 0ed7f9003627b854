"""Terminals in browsers to SSH servers: a real API process, a real worker, OpenSSH's own server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.promises import wait_until, within
from tests.support.ssh_clients import UNHURRIED, server
from tests.support.sshds import Sshd, sshd
from tests.support.terminals import ApiProcess, Browser, Terminal, add_user

from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.targets.connection import Toggle
from postern.protocols.terminal import terminal_frames as m

ON: dict[str, Any] = {"access_mode_web_terminal": Toggle.ENABLED}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), {"MaxStartups": "300", "MaxSessions": "300"}) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    running = Gateway(api_port=free_port(), control_port=free_port(), **UNHURRIED)
    try:
        running.start()
        add_user(running, "root@example.com", "admin")
        add_user(running, "ann@example.com", "crew")
        server(running, "web-1", target, **ON)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> Iterator[ApiProcess]:
    process = ApiProcess(gateway)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def ann(api: ApiProcess) -> Browser:
    return Browser(api, "ann@example.com")


def is_ready(terminal: Terminal) -> None:
    terminal.type("echo rea''dy\r")
    terminal.shows("ready")


def is_running(mark: str) -> bool:
    return subprocess.run(["pgrep", "-f", mark], capture_output=True, check=False).returncode == 0


def test_shell_of_a_server_runs_with_its_size_and_keys_and_is_recorded(gateway: Gateway, ann: Browser) -> None:
    with ann.terminal("web-1") as terminal:
        terminal.type("stty size; echo $TERM; tty\r")
        terminal.shows("20 90\r\nxterm-256color\r\n/dev/pts/")
        terminal.send(m.resize(100, 30))
        terminal.type("stty size\r")
        terminal.shows("30 100")
        terminal.type("sh -c \"echo sle''eping; exec sleep 60\"\r")
        terminal.shows("sleeping")
        terminal.type("\x03")
        # The shell reads keys again once it has written its prompt.
        terminal.until(lambda: len(terminal.text().partition("^C")[2].strip()) > 3)
        terminal.type("exit 3\r")
        assert terminal.until_closed()["code"] == 1000
    assert terminal.exit == m.Exit(3, "")
    session = gateway.newest_finished("web-1")
    assert session.user == "ann@example.com"
    assert (session.metadata["terminal"], session.metadata["channel"]) == ("yes", "shell")
    assert session.metadata["web_terminal"] == "yes"
    assert any("stty size; echo $TERM; tty" in line for line in gateway.operations(session.id))
    assert "/dev/pts/" in gateway.text(session.id)


def test_guardrails_and_masking_of_a_server_hold_in_its_terminal(gateway: Gateway, target: Sshd, ann: Browser) -> None:
    guarded = server(gateway, "guarded", target, redact_enabled=True, redact_types=("EMAIL_ADDRESS",), **ON)
    gateway.guardrail("no-rm", guarded, deny=r"rm\s+-rf")
    with ann.terminal("guarded") as terminal:
        is_ready(terminal)
        terminal.type("rm -rf /nowhere\r")
        terminal.until(lambda: "no-rm" in terminal.text() + terminal.text(m.STDERR))
        terminal.type("echo bob''@example.com; exit\r")
        terminal.until_closed()
    assert "bob@example.com" not in terminal.text()
    session = gateway.newest_finished("guarded")
    assert session.metrics["refused"] == 1
    assert "bob@example.com" not in gateway.text(session.id)


def test_held_line_waits_for_its_review(gateway: Gateway, target: Sshd, ann: Browser) -> None:
    held = server(gateway, "held", target, **ON)
    rule = Rule(RuleType.PATTERN_MATCH, (), "dangerous", "four eyes", action=Action.REVIEW)
    fields = {"name": "held", "input": (rule,), "connection_ids": (str(held.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    with ann.terminal("held") as terminal:
        is_ready(terminal)
        terminal.type("x=dangerous; echo ra''n\r")
        terminal.until(lambda: "postern reviews approve" in terminal.text(m.STDERR) + terminal.text())
        assert "ran\r\n" not in terminal.text()
        terminal.type("\x03")
        terminal.until(lambda: "cancelled while it was held" in terminal.text(m.STDERR) + terminal.text())
        terminal.type("echo af''ter\r")
        terminal.shows("after")


def test_closed_page_ends_the_shell_and_its_login_at_the_server(gateway: Gateway, ann: Browser) -> None:
    mark = f"sleep 4{uuid4().int % 10**8:08}"
    with ann.terminal("web-1") as terminal:
        terminal.type(f"{mark}\r")
        wait_until(lambda: is_running(mark))
    wait_until(lambda: not is_running(mark))
    assert gateway.newest_finished("web-1").metadata["end_reason"] == "client_closed"


def test_killed_shell_tells_its_browser(gateway: Gateway, api: ApiProcess, ann: Browser) -> None:
    root = Browser(api, "root@example.com")
    with ann.terminal("web-1") as terminal:
        is_ready(terminal)
        assert root.write("POST", f"/sessions/{gateway.newest('web-1').id}/kill").status_code == 204
        terminal.until_closed(within(2))
    assert "this session was killed" in terminal.text(m.STDERR)
    assert gateway.newest_finished("web-1").metadata["end_reason"] == "killed"


def test_logout_ends_the_shell(gateway: Gateway, ann: Browser) -> None:
    with ann.terminal("web-1") as terminal:
        is_ready(terminal)
        assert ann.write("POST", "/logout").status_code == 204
        assert terminal.until_closed(within(2))["code"] == 4401


def test_access_mode_of_shells_is_needed_too(gateway: Gateway, target: Sshd, ann: Browser) -> None:
    server(gateway, "off", target)
    server(gateway, "no-shells", target, access_mode_connect=Toggle.DISABLED, **ON)
    for name, reason in (("off", "terminals in the browser are disabled"), ("no-shells", "access mode connect")):
        with ann.connect(name) as socket:
            terminal = Terminal(socket)
            terminal.begin(ann.csrf)
            closed = terminal.until_closed()
        assert closed["code"] == 4403
        assert reason in closed["message"]


def test_server_that_is_away_or_denies_the_gateway_is_explained(gateway: Gateway, target: Sshd, ann: Browser) -> None:
    server(gateway, "away", replace(target, port=free_port()), **ON)
    with ann.terminal("away") as terminal:
        terminal.until_closed()
    assert terminal.exit == m.Exit(m.ENDED, "")
    assert terminal.text(m.STDERR)


@pytest.mark.parametrize("fields", [{"arguments": ["-c", "id"]}, {"arguments": ["id"]}])
def test_attack_command_as_arguments_of_a_shell_is_denied(ann: Browser, fields: dict[str, list[str]]) -> None:
    """It would be a command, which needs a different access mode."""
    with ann.terminal("web-1", **fields) as terminal:
        terminal.until_closed()
    assert "takes no arguments" in terminal.text(m.STDERR)
    assert "uid=" not in terminal.text()
