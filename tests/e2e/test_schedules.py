"""A schedule with whole processes: a git repository, workers, an archiver that is killed, a PostgreSQL and a sink."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.e2e.test_commands import command, stream
from tests.support.archiver_process import Archiver
from tests.support.gateway import Gateway
from tests.support.gits import Bare
from tests.support.planted import in_files, spellings
from tests.support.postgres import PostgresServer
from tests.support.promises import PATIENT, wait_until
from tests.support.sinks import sink_fields
from tests.support.syslog import Syslog
from tests.support.trackers.jira import DESK, REQUEST_TYPE, JiraServer
from tests.support.trackers.serving import serving
from tests.support.trackers.settings import jira_settings

from postern.domain.event import EventKind
from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.issues.issue import Prompt
from postern.domain.runbook import RunbookPattern, Schedule
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session
from postern.domain.sink import SinkKind
from postern.domain.targets.connection import Connection
from postern.errors import Invalid
from postern.services.issues.tracker_settings import TrackerFields

YEARLY = "0 0 1 1 *"  # so that it is due when a test says so, and at no other time
FILES = {
    "note.runbook.sql": "insert into scheduled values ({{ .what | squote }})",
    "pin.runbook.sh": 'printf %s "$PIN" | wc -c{{ .pin | type "password" | asenv "PIN" }}',
    "slow.runbook.sql": "select pg_sleep(60)",
}


class Site:
    """A gateway with an archiver, and what it tells its sink."""

    def __init__(self, folder: Path) -> None:
        self.books = Bare.made(folder / "books.git")
        self.commit = self.books.commit(FILES)
        self.listener = Syslog()
        self.jira = JiraServer()
        self.gateway = Gateway(
            gateway_commands=True,
            log_level="debug",
            runbook_folders=str(folder),
            runbook_schemes="file",
            sink_networks="127.0.0.1",
            tracker_networks="127.0.0.0/8,::1/128",
        )

    def start(self, target: PostgresServer) -> None:
        self.listener.start()
        gateway = self.gateway
        gateway.start()
        gateway.connection("scheduled-shop", target)
        self.track(command(gateway, "scheduled-box", "bash", "--norc"))
        given = {"git_url": f"file://{self.books.path}"}
        made = gateway.call(gateway.services.runbook_repositories.create(gateway.admin, given))
        self.repository = made.name
        gateway.call(gateway.services.runbook_repositories.refresh(gateway.admin, made.name))
        fields = {"email": "sam@example.com", "groups": ("dev",), "status": PrincipalStatus.ACTIVE}
        self.sam: Principal = gateway.call(gateway.services.users.create(gateway.admin, fields)).principal
        address = f"syslog+tcp://127.0.0.1:{self.listener.port}"
        sink = sink_fields("scheduled-siem", SinkKind.SYSLOG, address, (EventKind.SCHEDULE_FAILED,))
        gateway.call(gateway.services.sinks.create(gateway.admin, sink))
        self.archiver = Archiver(gateway)

    def track(self, connection: Connection) -> None:
        """Its sessions open an issue, which needs two fields."""
        gateway, self.serving = self.gateway, serving(self.jira)
        gateway.call(self.serving.__aenter__())
        settings = jira_settings(self.jira)
        given = {name: getattr(settings, name) for name in ("kind", "url", "user", "token", "authority")}
        gateway.call(gateway.services.tracker.create(gateway.admin, TrackerFields(**given)))
        asks = (Prompt("summary", "Summary", required=True), Prompt("customfield_10002", "Why", required=True))
        fields = {"name": "asks", "project_key": DESK, "request_type_id": REQUEST_TYPE, "prompts": asks}
        fields |= {"connection_ids": [str(connection.id)]}
        gateway.call(gateway.services.issue_templates.create(gateway.admin, fields))

    def plan(self, name: str, file: str = "note.runbook.sql", **more: Any) -> Schedule:
        fields = {"connection": "scheduled-shop", **more, "name": name, "file": file, "cron": YEARLY}
        return self.gateway.call(self.gateway.services.runbook_schedules.create(self.sam, fields))

    def now(self, name: str) -> Schedule:
        return self.gateway.call(self.gateway.services.runbook_schedules.get(self.gateway.admin, name))

    def due(self, name: str, **ago: float) -> None:
        """It is, since that long ago."""
        then = self.gateway.services.now() - timedelta(**ago)
        read = self.now(name)
        self.gateway.call(self.gateway.stores.runbook_schedules.update(replace(read, next_at=then)))

    def begun(self, name: str, **ago: float) -> Session:
        """The session of a run that is due."""
        before = self.now(name).last_session_id
        self.due(name, **ago)
        after = wait_until(lambda: self.later(name, before), PATIENT)
        assert (after.last_session_id is not None, after.last_error) == (True, "")
        return self.gateway.session(after.last_session_id or self.sam.id)

    def later(self, name: str, before: object) -> Schedule | None:
        found = self.now(name)
        return found if found.last_session_id != before else None

    def told(self, name: str) -> list[dict[str, Any]]:
        """Events about that schedule."""
        events = [json.loads(message[message.index(b"{") :]) for message in list(self.listener.messages)]
        return [one["data"] for one in events if one["data"]["schedule"] == name]

    def reason(self, name: str, **ago: float) -> str:
        """Why a run that is due does not come about, as the sink is told and the schedule says."""
        before = len(self.told(name))
        self.due(name, **ago)
        (*_, last) = wait_until(lambda: self.told(name)[before:], PATIENT)
        assert (len(self.told(name)), last["reason"]) == (before + 1, self.now(name).last_error)
        return str(last["reason"])

    def stop(self) -> None:
        self.archiver.kill()
        self.gateway.call(self.serving.__aexit__(None, None, None))
        self.gateway.stop()
        self.listener.socket.close()


@pytest.fixture(scope="module")
def site(target: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as stack:
        made = Site(tmp_path_factory.mktemp("scheduled"))
        stack.callback(made.gateway.stop)
        made.start(target)
        stack.pop_all()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(autouse=True)
def noted(direct: psycopg.Connection) -> Iterator[None]:
    direct.execute("create table scheduled (what text)")
    yield
    direct.execute("drop table scheduled")


def of_table(direct: psycopg.Connection) -> list[str]:
    return [row[0] for row in direct.execute("select what from scheduled").fetchall()]


def test_schedule_runs_as_its_owner_unless_a_rule_or_review_prevents_it(site: Site, direct: psycopg.Connection) -> None:
    gateway = site.gateway
    made = site.plan("as-its-owner", parameters={"what": Secret("it's due")})
    session = gateway.finished(site.begun("as-its-owner", seconds=1).id)
    assert (session.exit_code, of_table(direct)) == (0, ["it's due"])
    assert (session.user, session.script) == (site.sam.email, "insert into scheduled values ('it''s due')")
    assert session.labels == {
        "runbookSchedule": "as-its-owner",
        "runbookRepository": site.repository,
        "runbookFile": "note.runbook.sql",
        "runbookCommit": site.commit,
        "runbookParameters": '{"what": "it\'s due"}',
    }
    assert gateway.operations(session.id) == [session.script]  # recorded as any other
    others = {
        "name": "scheduled-others",
        "description": "",
        "runbooks": (RunbookPattern(site.repository, "other/"),),
        "connections": (),
        "groups": (),
    }
    rule = gateway.call(gateway.services.runbook_rules.create(gateway.admin, others))
    try:
        assert "no runbook rule allows you to run" in site.reason("as-its-owner", seconds=1)
    finally:
        gateway.call(gateway.services.runbook_rules.remove(gateway.admin, str(rule.id)))
    (told,) = site.told("as-its-owner")
    assert (told["connection"], told["runbook"]) == ("scheduled-shop", "/note.runbook.sql")
    assert (told["owner"], told["schedule_id"]) == (site.sam.email, str(made.id))
    assert gateway.finished(site.begun("as-its-owner", seconds=1).id).exit_code == 0
    gateway.call(gateway.services.connections.update(gateway.admin, "scheduled-shop", {"reviewers": ("admin",)}))
    waits = site.begun("as-its-owner", seconds=1)
    assert waits.review_id is not None
    assert str(waits.id) in site.reason("as-its-owner", seconds=1)
    gateway.call(gateway.services.connections.update(gateway.admin, "scheduled-shop", {"reviewers": ()}))
    assert of_table(direct) == ["it's due"] * 2


def test_missed_and_overlapping_runs_of_a_schedule_are_handled(site: Site, direct: psycopg.Connection) -> None:
    gateway = site.gateway
    for name in ("late", "too-late"):
        site.plan(name, parameters={"what": Secret(name)})
    site.archiver.kill()
    site.due("late", minutes=50)
    site.due("too-late", minutes=70)
    site.archiver = Archiver(gateway)
    late = wait_until(lambda: site.now("late").last_session_id, PATIENT)
    assert (gateway.finished(late).exit_code, of_table(direct)) == (0, ["late"])
    (missed,) = wait_until(lambda: site.told("too-late"), PATIENT)
    assert missed["reason"].startswith("missed: it was due at ")
    assert site.now("too-late").last_session_id is None
    site.plan("overlaps", "slow.runbook.sql")
    first = site.begun("overlaps", seconds=1)
    assert site.reason("overlaps", seconds=1) == f"skipped: the previous run, session {first.id}, has not ended"
    gateway.call(gateway.services.sessions.kill(site.sam, first.id))
    gateway.finished(first.id)
    second = site.begun("overlaps", seconds=1)
    gateway.call(gateway.services.sessions.kill(site.sam, second.id))
    gateway.finished(second.id)
    assert len(site.told("overlaps")) == 1


def test_parameters_and_issue_fields_of_a_schedule_are_never_stored_in_clear_text(site: Site) -> None:
    """A parameter is passed in a variable; an issue field reaches only the tracker."""
    gateway, parameter, field = site.gateway, "planted-parameter-5b1f", "planted-field-5b1f"
    fields = {"summary": Secret(field), "customfield_10002": Secret("night")}
    given = {"parameters": {"pin": Secret(parameter)}, "tracker_fields": fields}
    with pytest.raises(Invalid, match=r"needs Summary \(summary\), Why \(customfield_10002\)"):
        site.plan("opens", "pin.runbook.sh", connection="scheduled-box", **{**given, "tracker_fields": {}})
    site.plan("opens", "pin.runbook.sh", connection="scheduled-box", **given)
    session = gateway.finished(site.begun("opens", seconds=1).id)
    assert (session.exit_code, stream(gateway, session, "o").strip()) == (0, str(len(parameter)))
    key = wait_until(lambda: gateway.session(session.id).integrations_metadata.get("tracker_issue_key"), PATIENT)
    assert site.jira.issues[str(key)].fields["summary"] == field
    gateway.call(gateway.services.connections.update(gateway.admin, "scheduled-box", {"issue_template_id": None}))
    assert "open no issue" in site.reason("opens", seconds=1)
    found = in_files(gateway.home)
    assert any(site.sam.email.encode() in content for content in found.values())  # the search finds what is there
    assert any(name.endswith("archiver.log") for name in found)
    for secret in (parameter, field):
        for spelling in spellings(secret):
            assert [name for name, content in found.items() if spelling in content] == []
            assert not any(spelling in message for message in site.listener.messages)
