"""Runbooks through a whole worker: on a real PostgreSQL and in a real shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.e2e.test_commands import command, stream
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.shelf import NAME, shelve

from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.reviews.review import Choice
from postern.domain.runbook import RunbookPattern, RunbookRule
from postern.domain.secret import Secret
from postern.domain.sessions.results import Row
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.connection import Toggle
from postern.errors import Denied, Malformed
from postern.services.runbooks.runs import RunRequest
from postern.store.ports.common_ports import Topic

FILES = {
    "find.runbook.sql": "select id, name from customers where name = {{ .name | type `textarea` | squote }}",
    "emails.runbook.sql": "select email from customers limit {{ .most | type `number` | pattern `^[0-9]+$` }}",
    "slow.runbook.sql": "select {{ .mark | squote }}, pg_sleep(60)",
    "say.runbook.sh": "printf '%s\\n' {{ .word | type `textarea` | squote }} {{ .word | dquote }}",
    "call.runbook.sh": 'printf "%s" "${API_TOKEN}" | wc -c{{ .token | type "password" | asenv "API_TOKEN" }}',
    "danger.runbook.sql": "{{ .verb }} table customers",
}
HOSTILE = (
    "'; drop table customers; --",
    "\\'; drop table customers; --",
    "''; drop table customers; --",
    "$$; drop table customers; --",
    "x' union select 1, usename from pg_user --",
    "' or '1'='1",
    "a\nb'; drop table customers",
)


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    started = Gateway(gateway_commands=True)
    try:
        started.start()
        started.connection("shop", target)
        started.connection("masked", target, redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
        started.connection("reviewed", target, reviewers=("admin",))
        guarded = started.connection("guarded", target)
        started.guardrail("no-drop", guarded, deny=r"(?i)drop\s+table")
        command(started, "shell", "bash", "--norc")
        started.call(shelve(started.stores, started.admin.org_id, FILES))
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def ann(gateway: Gateway) -> Principal:
    """Nobody's administrator."""
    fields = {"email": "ann@example.com", "groups": ("dev",), "status": PrincipalStatus.ACTIVE}
    return gateway.call(gateway.services.users.create(gateway.admin, fields)).principal


@pytest.fixture(autouse=True)
def customers(direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists customers")
    direct.execute("create table customers (id int, name text, email text)")
    direct.execute("insert into customers values (1, 'ann', 'ann@example.com'), (2, 'o''hara', 'o@example.com')")


def submit(gateway: Gateway, who: Principal, connection: str, file: str, **parameters: str) -> Session:
    wanted = RunRequest(connection, file, parameters={name: Secret(value) for name, value in parameters.items()})
    return gateway.call(gateway.services.runbook_runs.submit(who, wanted, source="127.0.0.1", means="login:1"))


def run(gateway: Gateway, who: Principal, connection: str, file: str, **parameters: str) -> Session:
    return gateway.finished(submit(gateway, who, connection, file, **parameters).id)


def rows(gateway: Gateway, session: Session) -> list[list[str | None]]:
    return [list(one.cells) for one in gateway.services.sessions.results(session) if isinstance(one, Row)]


def is_whole(direct: psycopg.Connection) -> bool:
    return direct.execute("select count(*) from customers").fetchone() == (2,)


def test_sql_runbook_runs_with_its_parameters(gateway: Gateway, ann: Principal) -> None:
    session = run(gateway, ann, "shop", "find.runbook.sql", name="o'hara")
    assert (session.exit_code, session.metadata["end_reason"]) == (0, "completed")
    assert rows(gateway, session) == [["2", "o'hara"]]
    assert session.labels["runbookFile"] == "find.runbook.sql"


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_parameter_stays_one_sql_value(
    gateway: Gateway, ann: Principal, direct: psycopg.Connection, value: str
) -> None:
    direct.execute("insert into customers values (3, %s, 'x')", [value])
    session = run(gateway, ann, "shop", "find.runbook.sql", name=value)
    assert (session.exit_code, rows(gateway, session)) == (0, [["3", value]])
    assert direct.execute("select count(*) from customers").fetchone() == (3,)


def test_hostile_parameter_stays_one_shell_word(gateway: Gateway, ann: Principal, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for value in (
        f"$(touch {mark})",
        f"`touch {mark}`",
        f"'; touch {mark}; '",
        f'"; touch {mark}; "',
        f"\\'; touch {mark} #",
        f"x\ntouch {mark}",
        f"$((a[$(touch {mark})]))",
        f"!!; touch {mark}",
        "*",
    ):
        session = run(gateway, ann, "shell", "say.runbook.sh", word=value)
        assert (session.exit_code, stream(gateway, session, "o")) == (0, f"{value}\n{value}\n")
    assert not mark.exists()


def test_secret_parameter_is_passed_in_a_variable_and_stored_nowhere(gateway: Gateway, ann: Principal) -> None:
    session = run(gateway, ann, "shell", "call.runbook.sh", token="planted-s3cr3t")
    assert (session.exit_code, stream(gateway, session, "o").strip()) == (0, "14")
    kept = gateway.session(session.id)
    assert "planted-s3cr3t" not in repr(kept)
    assert json.loads(kept.labels["runbookParameters"]) == {"token": "***"}
    events = b"".join(content for _, _, content in gateway.services.sessions.events(kept))
    assert b"planted-s3cr3t" not in events


def test_guardrail_denies_the_rendered_runbook(gateway: Gateway, ann: Principal, direct: psycopg.Connection) -> None:
    session = run(gateway, ann, "guarded", "danger.runbook.sql", verb="drop")
    assert (session.exit_code, session.metrics["refused"]) == (1, 1)
    assert is_whole(direct)


def test_output_of_a_runbook_is_masked(gateway: Gateway, ann: Principal) -> None:
    session = run(gateway, ann, "masked", "emails.runbook.sql", most="2")
    assert session.exit_code == 0
    assert len(rows(gateway, session)) == 2
    assert "example.com" not in gateway.text(session.id)


def test_reviewed_runbook_runs_although_the_repository_changed(
    gateway: Gateway, ann: Principal, direct: psycopg.Connection
) -> None:
    waits = submit(gateway, ann, "reviewed", "find.runbook.sql", name="ann")
    assert waits.status is SessionStatus.OPEN
    by_then = {**FILES, "find.runbook.sql": "drop table customers"}
    gateway.call(shelve(gateway.stores, gateway.admin.org_id, by_then))
    try:
        review = gateway.call(gateway.services.reviews.get(gateway.admin, str(waits.id)))
        gateway.call(gateway.services.reviews.decide(gateway.admin, str(review.id), Choice.APPROVED))
        gateway.call(gateway.services.sessions.execute(ann, waits.id))
        session = gateway.finished(waits.id)
        assert (session.exit_code, rows(gateway, session)) == (0, [["1", "ann"]])
        assert is_whole(direct)
    finally:
        gateway.call(shelve(gateway.stores, gateway.admin.org_id, FILES))


def test_runbook_rule_denies_other_runbooks_and_its_deletion_ends_running_ones(
    gateway: Gateway, ann: Principal, direct: psycopg.Connection
) -> None:
    rules = gateway.stores.runbook_rules
    slow, other = rule(gateway, "slow"), rule(gateway, "others/")
    try:
        with pytest.raises(Denied, match="no runbook rule"):
            submit(gateway, ann, "shop", "find.runbook.sql", name="ann")
        runs = submit(gateway, ann, "shop", "slow.runbook.sql", mark="by rule")
        wait_until(lambda: running(direct, "by rule"))
        gateway.call(rules.remove(slow))
        rules_changed(gateway)
        session = gateway.finished(runs.id)
        assert session.metadata["end_reason"] == "revoked"
        wait_until(lambda: not running(direct, "by rule"))
    finally:
        for one in gateway.call(rules.all(gateway.admin.org_id)):
            if one.id in (slow.id, other.id):
                gateway.call(rules.remove(one))
        rules_changed(gateway)


def test_disabled_runbook_mode_ends_a_running_runbook(
    gateway: Gateway, ann: Principal, direct: psycopg.Connection, target: PostgresServer
) -> None:
    gateway.connection("brief", target)
    runs = submit(gateway, ann, "brief", "slow.runbook.sql", mark="by mode")
    wait_until(lambda: running(direct, "by mode"))
    change = {"access_mode_runbooks": Toggle.DISABLED}
    gateway.call(gateway.services.connections.update(gateway.admin, "brief", change))
    assert gateway.finished(runs.id).metadata["end_reason"] == "revoked"
    with pytest.raises(Denied, match="access mode runbooks is disabled"):
        submit(gateway, ann, "brief", "slow.runbook.sql", mark="x")


def test_invalid_runbook_input_is_rejected_before_it_reaches_a_worker(gateway: Gateway, ann: Principal) -> None:
    before = len(gateway.sessions())
    with pytest.raises(Malformed, match="most"):
        submit(gateway, ann, "shop", "emails.runbook.sql", most="1; drop table customers")
    assert len(gateway.sessions()) == before


def rule(gateway: Gateway, prefix: str) -> RunbookRule:
    at = gateway.services.now()
    made = RunbookRule(
        uuid4(),
        gateway.admin.org_id,
        f"rule {uuid4()}",
        runbooks=(RunbookPattern(NAME, prefix),),
        created_at=at,
        updated_at=at,
    )
    gateway.call(gateway.stores.runbook_rules.add(made))
    rules_changed(gateway)
    return made


def rules_changed(gateway: Gateway) -> None:
    gateway.call(gateway.services.signals.publish(Topic.POLICY_CHANGED, org_id=str(gateway.admin.org_id)))
