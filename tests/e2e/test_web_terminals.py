"""Terminals in browsers: commands through real API processes and a real worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.e2e.test_commands import command
from tests.e2e.test_waiting_clients import decide, waiting
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.promises import wait_until, within
from tests.support.terminals import PASSWORD, ApiProcess, Browser, Terminal, add_user

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Review
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Toggle
from postern.protocols.terminal import terminal_frames as m

ON: dict[str, Any] = {"access_mode_web_terminal": Toggle.ENABLED}
ENDED = {"status": "closed", "code": 1000, "message": "the program has ended"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    running = Gateway(gateway_commands=True, api_port=free_port(), control_port=free_port())
    try:
        running.start()
        add_user(running, "root@example.com", "admin")
        add_user(running, "ann@example.com", "crew")
        command(running, "shell", "bash", "--norc", **ON)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def dba(gateway: Gateway) -> Principal:
    return add_user(gateway, "dba@example.com", "dba")


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> Iterator[ApiProcess]:
    process = ApiProcess(gateway)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def ann(api: ApiProcess) -> Browser:
    return Browser(api, "ann@example.com")


@pytest.fixture(scope="module")
def root(api: ApiProcess) -> Browser:
    return Browser(api, "root@example.com")


@pytest.fixture
def shell(gateway: Gateway) -> str:
    """A command of its own for each test that changes it."""
    name = f"shell-{uuid4().hex[:8]}"
    command(gateway, name, "bash", "--norc", **ON)
    return name


def ends(gateway: Gateway, connection: str) -> Session:
    return gateway.newest_finished(connection)


def waiting_review(gateway: Gateway) -> Review:
    account = gateway.call(gateway.services.users.get(gateway.admin, "ann@example.com"))
    return waiting(gateway, account.principal)


def is_ready(terminal: Terminal) -> None:
    terminal.type("echo rea''dy\r")
    terminal.shows("ready")


def test_shell_runs_with_its_size_and_keys_and_ends_with_its_exit_code(gateway: Gateway, ann: Browser) -> None:
    with ann.terminal("shell") as terminal:
        terminal.type("stty size; echo $TERM\r")
        terminal.shows("20 90\r\nxterm-256color\r\n")
        terminal.send(m.resize(100, 30))
        terminal.type("stty size\r")
        terminal.shows("30 100")
        terminal.type("sh -c \"echo sle''eping; exec sleep 60\"\r")
        terminal.shows("sleeping")
        terminal.type("\x03")
        # The shell reads keys again once it has written its prompt.
        terminal.until(lambda: len(terminal.text().partition("^C")[2].strip()) > 3)
        terminal.type("echo st''ill; exit 3\r")
        assert terminal.until_closed() == ENDED
    assert "still" in terminal.text()
    assert terminal.exit == m.Exit(3, "")
    session = ends(gateway, "shell")
    assert session.user == "ann@example.com"
    assert "still" in gateway.text(session.id)
    assert (session.metadata["web_terminal"], session.metadata["client_address"]) == ("yes", "127.0.0.1")


def test_arguments_reach_the_command(ann: Browser) -> None:
    with ann.terminal("shell", arguments=["-c", "echo got $1", "-", "this"]) as terminal:
        assert terminal.until_closed() == ENDED
    assert terminal.text() == "got this\r\n"


def test_guardrail_denies_a_typed_line_and_masking_hides_output(gateway: Gateway, ann: Browser) -> None:
    guarded = command(gateway, "guarded", "bash", "--norc", redact_enabled=True, redact_types=("EMAIL_ADDRESS",), **ON)
    gateway.guardrail("no-rm", guarded, deny=r"rm\s+-rf")
    with ann.terminal("guarded") as terminal:
        terminal.type("rm -rf /nowhere\r")
        terminal.until(lambda: "no-rm" in terminal.text(m.STDERR) + terminal.text())
        terminal.type("echo ann''@example.com; exit\r")
        terminal.until_closed()
    assert "ann@example.com" not in terminal.text()
    session = ends(gateway, "guarded")
    assert session.metrics["refused"] == 1
    assert "ann@example.com" not in gateway.text(session.id)


def test_closed_page_ends_the_session(gateway: Gateway, ann: Browser, shell: str) -> None:
    with ann.terminal(shell) as terminal:
        is_ready(terminal)
    assert ends(gateway, shell).metadata["end_reason"] == "client_closed"


def test_lost_browser_ends_the_session(gateway: Gateway, ann: Browser, shell: str) -> None:
    with ann.terminal(shell) as terminal:
        is_ready(terminal)
        terminal.socket.socket.shutdown(2)
    assert ends(gateway, shell).metadata["end_reason"] == "client_closed"


def test_killed_session_tells_its_browser(gateway: Gateway, ann: Browser, root: Browser, shell: str) -> None:
    with ann.terminal(shell) as terminal:
        is_ready(terminal)
        killed = root.write("POST", f"/sessions/{gateway.newest(shell).id}/kill")
        assert killed.status_code < 300, killed.text
        assert terminal.until_closed(within(2)) == ENDED
    assert "this session was killed" in terminal.text(m.STDERR)
    assert terminal.exit == m.Exit(m.ENDED, "")
    assert ends(gateway, shell).metadata["end_reason"] == "killed"


def test_terminal_ends_with_its_login_and_other_logins_stay(gateway: Gateway, api: ApiProcess, shell: str) -> None:
    leaving, staying = Browser(api, "ann@example.com"), Browser(api, "ann@example.com")
    with leaving.terminal(shell) as ending, staying.terminal(shell) as other:
        is_ready(ending)
        is_ready(other)
        assert leaving.write("POST", "/logout").status_code == 204
        closed = ending.until_closed(within(2))
        assert closed["code"] == 4401
        assert "log in again" in closed["message"]
        assert "the login of this terminal has ended" in ending.text(m.STDERR)
        other.type("echo st''ill\r")
        other.shows("still")
    gateway.all_closed(connection=shell)
    reasons = {session.metadata["end_reason"] for session in gateway.sessions(connection=shell)}
    assert reasons == {"revoked", "client_closed"}


def test_terminal_ends_when_its_user_is_deactivated(
    gateway: Gateway, api: ApiProcess, root: Browser, shell: str
) -> None:
    leaver = f"leaver-{uuid4().hex[:8]}@example.com"
    add_user(gateway, leaver)
    with Browser(api, leaver).terminal(shell) as terminal:
        is_ready(terminal)
        changed = root.write("PATCH", f"/users/{leaver}", {"status": "inactive"})
        assert changed.status_code == 200, changed.text
        assert terminal.until_closed(within(2))["code"] == 4401


def test_terminal_ends_when_it_is_switched_off_and_command_lines_stay(
    gateway: Gateway, ann: Browser, root: Browser, shell: str
) -> None:
    with ann.terminal(shell) as terminal:
        is_ready(terminal)
        changed = root.write("PATCH", f"/connections/{shell}", {"access_mode_web_terminal": "disabled"})
        assert changed.status_code == 200, changed.text
        terminal.until_closed(within(2))
        assert "terminals in the browser are disabled" in terminal.text(m.STDERR)
    assert ends(gateway, shell).metadata["end_reason"] == "revoked"


def test_network_rule_ends_a_terminal_and_opens_no_other(
    gateway: Gateway, ann: Browser, root: Browser, shell: str
) -> None:
    rule = {"name": shell, "connection_names": [shell], "allowed_networks": ["192.0.2.0/24"]}
    reason = f"cannot be used from your address 127.0.0.1 (network rule '{shell}')"
    with ann.terminal(shell) as terminal:
        is_ready(terminal)
        made = root.write("POST", "/network-rules", rule)
        assert made.status_code == 201, made.text
        terminal.until_closed(within(2))
        assert reason in terminal.text(m.STDERR)
    assert ends(gateway, shell).metadata["end_reason"] == "revoked"
    with ann.connect(shell) as socket:
        again = Terminal(socket)
        again.begin(ann.csrf)
        again.until_closed()
        assert reason in " ".join(again.text(m.STDERR).split())


def test_login_that_expires_ends_its_terminal(gateway: Gateway, ann: Browser, shell: str) -> None:
    """No signal reports it: the API's process looks every 15 seconds."""
    with ann.terminal(shell) as terminal:
        is_ready(terminal)
        past = datetime.now(UTC) - timedelta(seconds=1)
        gateway.call(gateway.stores.logins.extend(UUID(ann.login_id()), past))
        assert terminal.until_closed(within(20))["code"] == 4401
    ends(gateway, shell)


@pytest.mark.parametrize("fields", [{}, {"access_mode_connect": Toggle.DISABLED}, {"auditor": True}, {"hidden": True}])
def test_reason_why_a_terminal_cannot_be_opened(
    gateway: Gateway, api: ApiProcess, ann: Browser, root: Browser, fields: dict[str, object]
) -> None:
    name = f"closed-{uuid4().hex[:8]}"
    who, on = ann, dict[str, Any](access_mode_web_terminal=Toggle.DISABLED)
    expected: tuple[int, str] = (4403, "terminals in the browser are disabled")
    if fields:
        on = ON
        expected = (4403, "access mode connect is disabled")
    if "auditor" in fields:
        email = f"auditor-{uuid4().hex[:8]}@example.com"
        add_user(gateway, email, "auditor")
        who, expected = Browser(api, email), (4403, "auditors can read")
    if "hidden" in fields:
        name, expected = "no-such-connection", (4404, "there is no connection")
    else:
        command(gateway, name, "bash", **on)
        if "access_mode_connect" in fields:
            root.write("PATCH", f"/connections/{name}", {"access_mode_connect": "disabled"})
    with who.connect(name) as socket:
        terminal = Terminal(socket)
        terminal.begin(who.csrf)
        closed = terminal.until_closed()
    assert closed["code"] == expected[0]
    assert expected[1] in closed["message"]
    answer = who.http.get(f"/connections/{name}/terminal")  # without a WebSocket the reason is the same
    assert answer.json()["message"] == closed["message"]
    assert answer.status_code == closed["code"] - 4000


def test_connection_without_a_terminal_says_so(gateway: Gateway, ann: Browser) -> None:
    gateway.connection("orders", secret={"PORT": "1"}, **ON)
    with ann.connect("orders") as socket:
        terminal = Terminal(socket)
        terminal.begin(ann.csrf)
        assert "has no terminal" in terminal.until_closed()["message"]


def test_fresh_factor_is_asked_for_and_given(gateway: Gateway, ann: Browser) -> None:
    name = f"fresh-{uuid4().hex[:8]}"
    command(gateway, name, "bash", access_fresh_factor=Toggle.ENABLED, **ON)
    with ann.terminal(name) as terminal:  # a new login is fresh
        is_ready(terminal)
    gateway.call(gateway.stores.logins.confirm(UUID(ann.login_id()), datetime.now(UTC)))
    with ann.connect(name) as socket:
        terminal = Terminal(socket)
        terminal.begin(ann.csrf)
        closed = terminal.until_closed()
    assert closed["code"] == 4428
    assert "POST /api/login/step-up" in closed["message"]
    answer = ann.http.get(f"/connections/{name}/terminal")
    assert (answer.status_code, answer.headers["Postern-Error"]) == (403, "step-up-required")
    wrong = ann.write("POST", "/login/step-up", {"password": "a wrong long password"})
    assert wrong.status_code == 403
    assert ann.write("POST", "/login/step-up", {"password": PASSWORD}).status_code == 200
    with ann.terminal(name) as terminal:
        is_ready(terminal)


def test_terminal_waits_for_its_review_and_runs_once_it_is_approved(
    gateway: Gateway, ann: Browser, dba: Principal
) -> None:
    name = f"reviewed-{uuid4().hex[:8]}"
    command(gateway, name, "bash", "--norc", reviewers=("dba",), access_fresh_factor=Toggle.ENABLED, **ON)
    with ann.terminal(name, reason="ticket 4711") as terminal:
        terminal.until(lambda: (m.WAITS, b"\1") in terminal.frames)
        assert "1 member of the group 'dba' must approve" in terminal.text(m.STDERR)
        terminal.type("echo ra''n\r")
        review = waiting_review(gateway)
        assert review.reason == "ticket 4711"
        assert terminal.text() == ""
        # The login was fresh when the terminal was requested, which is enough.
        gateway.call(gateway.stores.logins.confirm(UUID(ann.login_id()), datetime.now(UTC)))
        decide(gateway, dba, review, Choice.APPROVED)
        terminal.until(lambda: (m.WAITS, b"\0") in terminal.frames)
        terminal.shows("ran")
        decide(gateway, dba, review, Choice.REVOKED, "that is enough")
        terminal.until_closed(within(2))
        assert "that is enough" in terminal.text(m.STDERR)
    assert ends(gateway, name).metadata["end_reason"] == "revoked"


def test_waiting_terminal_is_told_that_its_review_was_rejected_or_stops_waiting(
    gateway: Gateway, ann: Browser, dba: Principal
) -> None:
    name = f"reviewed-{uuid4().hex[:8]}"
    command(gateway, name, "bash", "--norc", reviewers=("dba",), **ON)
    with ann.terminal(name) as terminal:
        terminal.until(lambda: (m.WAITS, b"\1") in terminal.frames)
        terminal.type("\x03")
        terminal.until_closed()
        assert "Stopped waiting" in terminal.text(m.STDERR)
    with ann.terminal(name) as terminal:
        terminal.until(lambda: (m.WAITS, b"\1") in terminal.frames)
        decide(gateway, dba, waiting_review(gateway), Choice.REJECTED, "not today")
        terminal.until_closed()
        assert "not today" in terminal.text(m.STDERR)


def test_login_that_ends_while_its_terminal_waits_is_not_admitted(
    gateway: Gateway, api: ApiProcess, dba: Principal
) -> None:
    name = f"reviewed-{uuid4().hex[:8]}"
    command(gateway, name, "bash", "--norc", reviewers=("dba",), **ON)
    leaving = Browser(api, "ann@example.com")
    with leaving.terminal(name) as terminal:
        terminal.until(lambda: (m.WAITS, b"\1") in terminal.frames)
        assert leaving.write("POST", "/logout").status_code == 204
        assert terminal.until_closed(within(20))["code"] == 4401
    assert "bash" not in terminal.text()


def test_idle_terminal_ends(gateway: Gateway, shell: str) -> None:
    port = free_port()
    gateway.add_worker("idle", tunnel_port=port, postgres_port=free_port(), idle_timeout=1)
    process = ApiProcess(gateway, "api-idle", tunnel_port=port, api_port=free_port(), control_port=free_port())
    process.start()
    try:
        with Browser(process, "ann@example.com").terminal(shell) as terminal:
            terminal.until_closed()
            assert "was idle for 1 second" in terminal.text(m.STDERR)
        assert ends(gateway, shell).metadata["end_reason"] == "idle"
    finally:
        process.kill()
        gateway.workers.pop("idle").kill()


def test_login_ends_the_terminal_at_a_different_api_process(gateway: Gateway, api: ApiProcess, shell: str) -> None:
    second = ApiProcess(gateway, "api-2", api_port=free_port(), control_port=free_port())
    second.start()
    try:
        at_first = Browser(api, "ann@example.com")
        at_second = Browser(second, "ann@example.com")
        at_second.http.cookies.update(at_first.http.cookies)
        at_second.csrf = at_first.csrf
        with at_second.terminal(shell) as terminal, at_first.terminal(shell) as other:
            is_ready(terminal)
            is_ready(other)
            assert at_first.write("POST", "/logout").status_code == 204
            assert terminal.until_closed(within(2))["code"] == 4401
            assert other.until_closed(within(2))["code"] == 4401
    finally:
        second.kill()


def test_stopping_api_closes_terminals_at_once(gateway: Gateway, shell: str) -> None:
    process = ApiProcess(gateway, "api-stopped", api_port=free_port(), control_port=free_port())
    process.start()
    try:
        with Browser(process, "ann@example.com").terminal(shell) as terminal:
            is_ready(terminal)
            begun = time.monotonic()
            assert process.stop() == 0
            assert time.monotonic() - begun < within(5)
            while terminal.receive():
                pass
            assert terminal.close_frame is not None
            assert terminal.close_frame.code == 1012  # "service restart": a page can connect again
        assert ends(gateway, shell).metadata["end_reason"] == "client_closed"
    finally:
        process.kill()


def test_killed_worker_closes_its_terminals_with_a_reason(gateway: Gateway, shell: str) -> None:
    port = free_port()
    worker = gateway.add_worker("dying", tunnel_port=port, postgres_port=free_port())
    process = ApiProcess(gateway, "api-dying", tunnel_port=port, api_port=free_port(), control_port=free_port())
    process.start()
    try:
        browser = Browser(process, "ann@example.com")
        with browser.terminal(shell) as terminal:
            is_ready(terminal)
            worker.kill()
            closed = terminal.until_closed()
            assert (closed["code"], "open the terminal again" in closed["message"]) == (4503, True)
        with browser.connect(shell) as socket:
            terminal = Terminal(socket)
            terminal.begin(browser.csrf)
            assert terminal.until_closed()["code"] == 4503
    finally:
        process.kill()
        gateway.workers.pop("dying")


def test_log_has_one_line_for_a_terminal_without_secrets(api: ApiProcess, ann: Browser) -> None:
    with ann.terminal("shell") as terminal:
        terminal.type("exit\r")
        terminal.until_closed()
    line = wait_until(lambda: next((line for line in reversed(api.log().splitlines()) if "WEBSOCKET" in line), None))
    assert "/api/connections/shell/terminal 1000" in line
    assert "user=ann@example.com" in line
    token = next(iter(ann.http.cookies.values()))
    assert token not in api.log()
    assert ann.csrf not in api.log()


def test_open_terminals_are_a_metric(gateway: Gateway) -> None:
    process = ApiProcess(gateway, "api-metrics", api_port=free_port(), control_port=free_port())
    process.start()  # the newest process of this name answers for its metrics
    try:
        root, ann = Browser(process, "root@example.com"), Browser(process, "ann@example.com")

        def count() -> float:
            lines = root.http.get("/metrics").text.splitlines()
            return sum(float(line.split()[-1]) for line in lines if line.startswith("postern_web_terminals_open"))

        with ann.terminal("shell"):
            wait_until(lambda: count() == 1)
        wait_until(lambda: count() == 0)
    finally:
        process.kill()
