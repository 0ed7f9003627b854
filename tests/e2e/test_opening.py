"""Sessions that are ended from outside while their target is still being dialled."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.promises import wait_until, within

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import PrincipalStatus
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.connection import Toggle
from postern.protocols.postgres.wire import postgres_messages as m


class Hesitant:
    """A target that takes connections and never answers, or only when it is let."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self.dialled = threading.Event()
        self.let = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.left = threading.Event()  # whoever dialled has closed
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[stream], daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        with stream, suppress(OSError):
            stream.recv(4096)
            self.dialled.set()
            if self._answers:
                self.let.wait(60)
                greeting = [m.authentication(m.AUTH_OK), m.backend_key_data(7, b"key!"), m.ready_for_query(b"I")]
                stream.sendall(b"".join(greeting))
            while stream.recv(4096):
                pass
            self.left.set()


class Attempt:
    """A client that connects in a thread: what it was told, and when."""

    def __init__(self, url: str) -> None:
        self.said: str | None = None
        self._url = url
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            psycopg.connect(self._url, connect_timeout=30).close()
            self.said = "welcome"
        except psycopg.OperationalError as error:
            self.said = str(error)

    def told(self) -> str:
        self._thread.join(within(1))
        assert self.said is not None, "still connecting"
        return self.said


@pytest.fixture(params=[False, True], ids=["silent", "slow"])
def hesitant(request: pytest.FixtureRequest) -> Iterator[Hesitant]:
    made = Hesitant(answers=request.param)
    yield made
    made.stop()


@pytest.fixture
def name(gateway: Gateway, hesitant: Hesitant) -> str:
    made = f"opening-{hesitant.port}"
    gateway.connection(made, secret={"PORT": str(hesitant.port), "SSLMODE": "disable"})
    return made


def opening(gateway: Gateway, name: str) -> Session:
    return wait_until(lambda: next(iter(gateway.sessions(connection=name, status=SessionStatus.OPEN)), None))


def ends(gateway: Gateway, name: str, issued: Issued, target: Hesitant, do: Callable[[Session], object]) -> str:
    """What the client is told, and the recorded reason, when `do` happens while its target is being dialled."""
    attempt = Attempt(gateway.url(name, issued=issued))
    session = opening(gateway, name)
    assert target.dialled.wait(60)
    do(session)
    said = attempt.told()
    target.let.set()  # too late
    assert target.left.wait(60)
    done = gateway.finished(session.id)
    return f"{done.metadata['end_reason']}: {said}"


def test_kill_ends_a_session_that_is_being_dialled(gateway: Gateway, name: str, hesitant: Hesitant) -> None:
    kill = gateway.services.sessions.kill
    issued = gateway.credential(name)
    said = ends(gateway, name, issued, hesitant, lambda session: gateway.call(kill(gateway.admin, session.id)))
    assert said.startswith("killed: ")
    assert "this session was killed" in said


def test_revoked_credential_ends_a_session_that_is_being_dialled(
    gateway: Gateway, name: str, hesitant: Hesitant
) -> None:
    issued = gateway.credential(name)
    revoke = gateway.services.credentials.revoke
    said = ends(
        gateway, name, issued, hesitant, lambda _: gateway.call(revoke(gateway.admin, name, issued.credential.id))
    )
    assert said.startswith("revoked: ")
    assert "this credential was revoked" in said


def test_deactivated_user_ends_a_session_that_is_being_dialled(gateway: Gateway, name: str, hesitant: Hesitant) -> None:
    fields = {"email": f"{name}@example.com", "name": "Leaver", "status": PrincipalStatus.ACTIVE}
    user = gateway.call(gateway.services.users.create(gateway.admin, fields)).principal
    issued = gateway.credential(name, principal=user)
    inactive = {"status": PrincipalStatus.INACTIVE}
    update = gateway.services.users.update
    said = ends(gateway, name, issued, hesitant, lambda _: gateway.call(update(gateway.admin, user.email, inactive)))
    assert said.startswith("revoked: ")
    assert "inactive" in said


def test_disabled_connection_ends_a_session_that_is_being_dialled(
    gateway: Gateway, name: str, hesitant: Hesitant
) -> None:
    change = {"access_mode_connect": Toggle.DISABLED}
    patch = gateway.services.connections.update
    issued = gateway.credential(name)
    said = ends(gateway, name, issued, hesitant, lambda _: gateway.call(patch(gateway.admin, name, change)))
    assert said.startswith("revoked: ")
    assert "access mode connect is disabled" in said


def test_kill_does_not_end_another_session_that_is_being_dialled(
    gateway: Gateway, name: str, hesitant: Hesitant
) -> None:
    first = Attempt(gateway.url(name))
    session = opening(gateway, name)
    second = Attempt(gateway.url(name))
    wait_until(lambda: len(gateway.sessions(connection=name, status=SessionStatus.OPEN)) == 2)
    other = next(one for one in gateway.sessions(connection=name) if one.id != session.id)
    gateway.call(gateway.services.sessions.kill(gateway.admin, other.id))
    assert "killed" in second.told()
    assert first.said is None
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    assert "killed" in first.told()


def test_kill_ends_a_script_whose_target_is_being_dialled(gateway: Gateway, name: str, hesitant: Hesitant) -> None:
    submit = gateway.services.sessions.submit
    session = gateway.call(submit(gateway.admin, name, "select 1", source="127.0.0.1"))
    opening(gateway, name)
    assert hesitant.dialled.wait(60)
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    done = gateway.finished(session.id, within(1))
    hesitant.let.set()
    assert done.metadata["end_reason"] == "killed"
    assert done.exit_code == 1
    assert hesitant.left.wait(60)
    assert "killed" in gateway.text(session.id)


def test_slow_target_is_waited_for(gateway: Gateway) -> None:
    slow = Hesitant(answers=True)
    gateway.connection("only-slow", secret={"PORT": str(slow.port), "SSLMODE": "disable"})
    attempt = Attempt(gateway.url("only-slow"))
    assert slow.dialled.wait(60)
    assert attempt.said is None
    slow.let.set()
    assert attempt.told() == "welcome"
    assert gateway.newest_finished("only-slow").metadata["end_reason"] == "client_closed"
    slow.stop()
