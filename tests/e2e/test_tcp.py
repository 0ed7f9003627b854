"""TCP connections through a local port: real clients and servers, half-open ends, slow readers, resets, rules."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest
from tests.support.clients import psql
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until
from tests.support.redis import redis, running_redis
from tests.support.tcp_gateway import LocalPort, local_port, tcp_connection
from tests.support.tcp_services import TIMEOUT, dial, read_all, reset, service
from tests.support.world import CLIENT

from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import Invalid, PosternError
from postern.interception.events import Completed, Note
from postern.store.ports.review_ports import ReviewFilter

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


def opened(gateway: Gateway, port: int, **more: Any) -> str:
    """The name of a new connection to a port of this machine."""
    name = f"tcp-{uuid4().hex[:8]}"
    tcp_connection(gateway, name, port, **more)
    return name


def test_redis_cli_works_and_each_client_is_a_recorded_session(gateway: Gateway, cache: int) -> None:
    name = opened(gateway, cache)
    with local_port(gateway, name) as local:
        assert redis(local.port, "SET", "greeting", "grüße").stdout == "OK\n"
        assert redis(local.port, "GET", "greeting").stdout == "grüße\n"
        many = redis(local.port, stdin="\n".join(f"INCR counter{number % 7}" for number in range(500)))
        assert many.stdout.split() == [str(number // 7 + 1) for number in range(500)]
        assert local.failures == []
    gateway.all_closed(connection=name)
    read, written = gateway.sessions(connection=name)[1:]
    assert "*3\r\n$3\r\nSET\r\n$8\r\ngreeting\r\n$7\r\ngrüße\r\n" in gateway.text(written.id)
    assert gateway.text(read.id).endswith("$7\r\ngrüße\r\n")
    assert (read.metrics["client_bytes"], read.metrics["target_bytes"]) == (27, 13)
    (totals,) = [event for event in gateway.records(read.id) if isinstance(event, Completed)]
    assert totals.tag == "27 bytes to the target, 13 bytes from it"
    assert read.metadata["end_reason"] == "client_closed"


def test_psql_works_with_several_clients_at_once(gateway: Gateway, target: PostgresServer) -> None:
    name = opened(gateway, target.port)
    with local_port(gateway, name) as local:
        url = f"postgresql://postgres@127.0.0.1:{local.port}/postgres?sslmode=disable"
        results: list[str] = []

        def ask(number: int) -> None:
            results.append(psql(url, "-c", f"select {number} * 2, pg_sleep(0.2)").stdout)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == sorted(f"{number * 2}|\n" for number in range(8))
    gateway.all_closed(connection=name)
    sessions = gateway.sessions(connection=name)
    assert len(sessions) == 8
    assert "select" in gateway.text(sessions[0].id)


def answer_with_digest(connection: socket.socket) -> None:
    """Answers only after the end of the request."""
    connection.sendall(hashlib.sha256(read_all(connection)).hexdigest().encode())


def test_client_that_has_ended_its_request_gets_the_answer(gateway: Gateway) -> None:
    with service(answer_with_digest) as port, local_port(gateway, opened(gateway, port)) as local:
        for data in (b"", b"a", os.urandom(3 * MEGABYTE)):
            with dial(local.port) as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)  # at once: before the gateway has dialled the target
                assert read_all(client) == hashlib.sha256(data).hexdigest().encode()


def test_target_that_has_ended_its_direction_still_receives(gateway: Gateway) -> None:
    received: list[bytes] = []

    def greet(connection: socket.socket) -> None:
        connection.sendall(b"hello")
        connection.shutdown(socket.SHUT_WR)
        received.append(read_all(connection))

    data = os.urandom(MEGABYTE)
    with service(greet) as port, local_port(gateway, opened(gateway, port)) as local:
        client = dial(local.port)
        assert read_all(client) == b"hello"
        client.sendall(data)
        client.close()
        wait_until(lambda: received)
    assert received == [data]


def test_target_that_sends_and_closes_at_once_is_read_to_its_end(gateway: Gateway) -> None:
    def tell_time(connection: socket.socket) -> None:
        connection.sendall(b"the time is now\r\n")

    with service(tell_time) as port, local_port(gateway, opened(gateway, port)) as local:
        for _ in range(20):
            with dial(local.port) as client:
                assert read_all(client) == b"the time is now\r\n"


def test_slow_reader_gets_everything_after_the_target_has_gone(gateway: Gateway) -> None:
    data = os.urandom(4 * MEGABYTE)

    def send(connection: socket.socket) -> None:
        connection.sendall(data)

    with service(send) as port, local_port(gateway, opened(gateway, port)) as local, dial(local.port) as client:
        client.shutdown(socket.SHUT_WR)
        got = b""
        while piece := client.recv(64 * 1024):
            got += piece
            time.sleep(0.02)
        assert got == data


def test_client_can_send_everything_before_it_reads_anything(gateway: Gateway) -> None:
    """Both directions are full: neither waits for the other."""
    data = os.urandom(8 * MEGABYTE)

    def both(connection: socket.socket) -> None:
        sending = threading.Thread(target=connection.sendall, args=(data,))
        sending.start()
        digest = hashlib.sha256(read_all(connection)).digest()
        sending.join()
        connection.sendall(digest)

    with service(both) as port, local_port(gateway, opened(gateway, port)) as local, dial(local.port) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == data + hashlib.sha256(data).digest()


def test_reset_by_the_target_is_a_reset_for_the_client(gateway: Gateway) -> None:
    def break_off(connection: socket.socket) -> None:
        connection.sendall(b"part")
        connection.recv(1)
        reset(connection)

    with service(break_off) as port, local_port(gateway, opened(gateway, port)) as local, dial(local.port) as client:
        assert client.recv(4) == b"part"
        client.sendall(b"x")
        cut(client)


def test_reset_by_the_client_is_a_reset_for_the_target(gateway: Gateway) -> None:
    ends: list[object] = []

    def wait(connection: socket.socket) -> None:
        connection.sendall(b"here")
        try:
            ends.append(read_all(connection))
        except ConnectionResetError as error:
            ends.append(type(error))

    with service(wait) as port, local_port(gateway, opened(gateway, port)) as local:
        client = dial(local.port)
        assert client.recv(4) == b"here"
        reset(client)
        wait_until(lambda: ends)
    assert ends == [ConnectionResetError]


def cut(client: socket.socket) -> None:
    """The client is reset: it does not take what it has for complete."""
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_unreachable_target_resets_the_client_and_the_command_line_says_why(gateway: Gateway) -> None:
    name = opened(gateway, free_port())
    with local_port(gateway, name) as local:
        with dial(local.port) as client:
            cut(client)
        (reason,) = local.failures
        assert reason.startswith("the target at 127.0.0.1:")
        assert "cannot be reached" in reason
    assert gateway.newest_finished(name).metadata["end_reason"] == "failed"


def stay(connection: socket.socket) -> None:
    connection.sendall(b"here")
    read_all(connection)


def test_killed_session_resets_both_sides_and_says_why(gateway: Gateway) -> None:
    with service(stay) as port:
        name = opened(gateway, port)
        with local_port(gateway, name) as local, dial(local.port) as client:
            assert client.recv(4) == b"here"
            session = gateway.newest(name)
            gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
            cut(client)
            assert wait_until(lambda: local.failures) == ["this session was killed"]
        assert gateway.finished(session.id).metadata["end_reason"] == "killed"


def test_session_ends_when_it_is_idle_or_too_long(target: PostgresServer) -> None:
    running = Gateway(idle_timeout=2)
    try:
        running.start()
        with service(stay) as port:
            idle, limited = opened(running, port), opened(running, port, access_max_duration=1)
            for name, reason in ((idle, "idle"), (limited, "expired")):
                with local_port(running, name) as local, dial(local.port) as client:
                    assert client.recv(4) == b"here"
                    cut(client)
                    assert local.failures
                assert running.newest_finished(name).metadata["end_reason"] == reason
    finally:
        running.stop()


def test_rules_about_content_are_rejected_with_the_reason(gateway: Gateway) -> None:
    name = opened(gateway, 1)
    connection = gateway.call(gateway.services.connections.get(gateway.admin, name))
    reason = "Postern passes its bytes on without reading them"
    rule = Rule(RuleType.PATTERN_MATCH, (), "drop", "no")
    attached = {"name": f"g-{name}", "input": (rule,), "connection_ids": (str(connection.id),)}
    with pytest.raises(Invalid, match=reason):
        gateway.call(gateway.services.guardrails.create(gateway.admin, attached))
    free = gateway.call(gateway.services.guardrails.create(gateway.admin, {"name": f"g-{name}", "input": (rule,)}))
    masking = {"name": f"m-{name}", "columns": ("email",), "connection_ids": (str(connection.id),)}
    with pytest.raises(Invalid, match=reason):
        gateway.call(gateway.services.masking_rules.create(gateway.admin, masking))
    for fields in (
        {"guardrail_rules": (str(free.id),)},
        {"redact_types": ("EMAIL_ADDRESS",)},
        {"redact_types": ("EMAIL_ADDRESS",), "redact_enabled": False},
        {"redact_enabled": True},
    ):
        with pytest.raises(Invalid, match=reason):
            gateway.call(gateway.services.connections.update(gateway.admin, name, fields))


def test_attack_guarded_database_cannot_be_reached_as_unread_bytes(gateway: Gateway) -> None:
    """The command line says which protocol it carries; the connection decides."""
    with local_port(gateway, "target") as local, dial(local.port) as client:
        cut(client)
        assert wait_until(lambda: local.failures) == ["connection 'target' needs a client of its protocol, 'postgres'"]


def test_attack_tcp_connection_cannot_be_opened_as_a_database(gateway: Gateway, cache: int) -> None:
    with local_port(gateway, opened(gateway, cache)) as local:
        local.forward.request = replace(local.forward.request, protocol="postgres")
        done = psql(f"postgresql://me@127.0.0.1:{local.port}/postgres?sslmode=disable", "-c", "select 1")
        assert (done.returncode, "of subtype 'tcp', not 'postgres'" in done.stderr) == (2, True), done.stderr


def test_scripts_and_credentials_are_rejected_with_the_way_to_connect(gateway: Gateway) -> None:
    name = opened(gateway, 1)
    with pytest.raises(Invalid, match=f"no script can run on .*; use `postern connect {name}`"):
        gateway.call(gateway.services.sessions.submit(gateway.admin, name, "PING", source="::1"))
    with pytest.raises(Invalid, match=f"use `postern connect {name}`"):
        gateway.credential(name)


def test_connection_test_connects(gateway: Gateway) -> None:
    ask = gateway.services.target_tasks.ask
    with service(stay) as port:
        answer = gateway.call(ask(gateway.admin, opened(gateway, port), TargetTaskKind.TEST, source="::1"))
    assert answer.result == {"success": True}
    with pytest.raises(PosternError, match="cannot be reached"):
        gateway.call(ask(gateway.admin, opened(gateway, free_port()), TargetTaskKind.TEST, source="::1"))


@dataclass
class Reviewed:
    """A connection to a service that needs a review, and a local port of somebody who has none yet."""

    gateway: Gateway
    name: str
    local: LocalPort
    user: Principal
    reviewer: Principal

    def pending(self) -> Review | None:
        wanted = ReviewFilter(owner=self.user.id, status=ReviewStatus.PENDING)
        found = self.gateway.call(self.gateway.services.reviews.find(self.gateway.admin, wanted, Page(limit=10)))
        return next(iter(found.items), None)

    def approve(self) -> None:
        review = wait_until(self.pending)
        self.gateway.call(self.gateway.services.reviews.decide(self.reviewer, str(review.id), Choice.APPROVED))


@contextmanager
def reviewed(gateway: Gateway, port: int) -> Iterator[Reviewed]:
    name = opened(gateway, port, reviewers=("dba",))

    def account_of(kind: str) -> Account:
        fields = {"email": f"{kind}-{name}@example.com", "groups": (kind,), "status": PrincipalStatus.ACTIVE}
        return gateway.call(gateway.services.users.create(gateway.admin, fields))

    user, reviewer = account_of("dev"), account_of("dba")
    token = gateway.call(gateway.services.logins.open(user, LoginMethod.LOCAL, CLIENT)).token
    with local_port(gateway, name, token) as local:
        yield Reviewed(gateway, name, local, user.principal, reviewer.principal)


def test_client_waits_for_the_review_of_its_access(gateway: Gateway, cache: int) -> None:
    with reviewed(gateway, cache) as here, dial(here.local.port) as client:
        client.sendall(b"PING\r\n")
        wait_until(here.pending)
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(TIMEOUT)
        here.approve()
        assert client.recv(7) == b"+PONG\r\n"


@pytest.mark.parametrize("leave", [socket.socket.close, lambda client: client.shutdown(socket.SHUT_WR)])
def test_what_a_client_sent_that_left_during_the_review_is_not_run_after_it(
    gateway: Gateway, leave: Callable[[socket.socket], None]
) -> None:
    received: list[bytes] = []
    with service(lambda connection: received.append(read_all(connection))) as port:
        with reviewed(gateway, port) as here, dial(here.local.port) as client:
            client.sendall(b"FLUSHALL\r\n")
            wait_until(here.pending)
            leave(client)
            time.sleep(0.5)
            here.approve()
            with dial(here.local.port) as later:
                later.sendall(b"PING\r\n")
            wait_until(lambda: received)
        gateway.all_closed(connection=here.name)
    assert received == [b"PING\r\n"]


def test_recording_is_bounded_in_both_directions() -> None:
    running = Gateway(recording_output_limit=1000)
    try:
        running.start()

        def echo(connection: socket.socket) -> None:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

        with service(echo) as port:
            name = opened(running, port)
            with local_port(running, name) as local, dial(local.port) as client:
                _exchange(client, b"x" * 100_000, 1)
        session = running.newest_finished(name)
        notes = [event.text for event in running.records(session.id) if isinstance(event, Note)]
        assert sorted(notes) == ["input limit reached", "output limit reached"]
        assert session.metrics["event_size"] < 5000
        assert (session.metrics["client_bytes"], session.metrics["target_bytes"]) == (100_000, 100_000)
    finally:
        running.stop()


def _exchange(client: socket.socket, block: bytes, times: int) -> None:
    """Send a block that often, and read as much, at the same time; then end the session."""
    total = len(block) * times

    def send() -> None:
        for _ in range(times):
            client.sendall(block)
        client.shutdown(socket.SHUT_WR)

    sending = threading.Thread(target=send)
    sending.start()
    digest, expected, size = hashlib.blake2b(), hashlib.blake2b(), 0
    while data := client.recv(1 << 18):
        digest.update(data)
        size += len(data)
    sending.join()
    for _ in range(times):
        expected.update(block)
    assert size == total
    assert digest.digest() == expected.digest()


@pytest.mark.parametrize("megabytes", [64, pytest.param(5 * 1024, marks=[pytest.mark.huge, pytest.mark.timeout(3600)])])
def test_large_transfer_both_ways_takes_constant_memory(gateway: Gateway, megabytes: int) -> None:
    def echo(connection: socket.socket) -> None:
        while data := connection.recv(1 << 18):
            connection.sendall(data)

    with service(echo) as port:
        name = opened(gateway, port)
        with local_port(gateway, name) as local, dial(local.port) as client:
            _exchange(client, os.urandom(MEGABYTE), 8)  # windows and buffers have grown
        before = gateway.worker.resident()
        with local_port(gateway, name) as local, dial(local.port) as client:
            client.settimeout(3000)
            _exchange(client, os.urandom(MEGABYTE), megabytes)
        assert gateway.worker.resident() - before < 64 * MEGABYTE
    session = gateway.newest_finished(name)
    assert session.metrics["target_bytes"] == megabytes * MEGABYTE
