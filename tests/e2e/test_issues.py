"""Sessions open and close issues in a tracker: a whole gateway, a mock Jira, and an archiver that is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.support.archiver_process import Archiver
from tests.support.clients import psql
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.trackers.jira import DESK, REQUEST_TYPE, TOKEN, JiraServer
from tests.support.trackers.serving import Fault, serving
from tests.support.trackers.settings import jira_settings

from postern.domain.issues.issue import FieldMapping, IssueState, MappingType, Prompt, SessionIssue, WhenDown
from postern.domain.lists import Page
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Invalid, Unavailable
from postern.services.issues.tracker_settings import TrackerFields

pytestmark = pytest.mark.slow

OPEN, ASKS, PLAIN = "opens-issues", "asks-why", "opens-none"
CREATE = r"POST /rest/servicedeskapi/request"


class Desk:
    """The tracker, and what sessions have there."""

    def __init__(self, gateway: Gateway, jira: JiraServer) -> None:
        self.gateway = gateway
        self.jira = jira

    def set(self, **changes: Any) -> None:
        settings = jira_settings(self.jira, **changes)
        given = {name: getattr(settings, name) for name in ("kind", "url", "user", "token", "authority", "when_down")}
        self.gateway.call(self.gateway.services.tracker.replace(self.gateway.admin, TrackerFields(**given)))

    def issues(self) -> list[SessionIssue]:
        """Newest first."""
        found = self.gateway.services.session_issues.find(self.gateway.admin, None, Page(100))
        return list(self.gateway.call(found).items)

    def closed(self, session: Session) -> Session:
        """Once its issue is closed: it is the session's, and no other issue is."""

        def one() -> SessionIssue | None:
            return next(
                (one for one in self.issues() if one.session_id == session.id and one.state is IssueState.CLOSED),
                None,
            )

        issue = wait_until(one, 180).issue
        assert issue is not None
        told = self.gateway.session(session.id).integrations_metadata
        assert told == {"tracker_issue_key": issue.key, "tracker_issue_url": issue.url}
        ours = [made for made in self.jira.issues.values() if str(session.id) in str(made.fields)]
        assert [(made.key, made.status) for made in ours] == [(issue.key, "Done")]
        return self.gateway.session(session.id)


@contextmanager
def running(target: PostgresServer) -> Iterator[Desk]:
    """Without an archiver."""
    gateway, jira = Gateway(tracker_networks="127.0.0.0/8,::1/128"), JiraServer()
    try:
        gateway.start()
        site = serving(jira)
        gateway.call(site.__aenter__())
        try:
            yield _set_up(gateway, jira, target)
        finally:
            gateway.call(site.__aexit__(None, None, None))
    finally:
        gateway.stop()


def _set_up(gateway: Gateway, jira: JiraServer, target: PostgresServer) -> Desk:
    settings = jira_settings(jira)
    given = {name: getattr(settings, name) for name in ("kind", "url", "user", "token", "authority")}
    gateway.call(gateway.services.tracker.create(gateway.admin, TrackerFields(**given)))
    ids = {name: str(gateway.connection(name, target).id) for name in (OPEN, ASKS, PLAIN)}
    mapped = (FieldMapping("customfield_10001", MappingType.PRESET, "session.user_email"),)
    asks = (Prompt("summary", "Summary", required=True), Prompt("customfield_10002", "Why", required=True))
    for name, prompts in ((OPEN, ()), (ASKS, asks)):
        fields = {"name": name, "project_key": DESK, "request_type_id": REQUEST_TYPE, "mappings": mapped}
        fields |= {"prompts": prompts, "connection_ids": [ids[name]]}
        gateway.call(gateway.services.issue_templates.create(gateway.admin, fields))
    return Desk(gateway, jira)


@pytest.fixture(scope="module")
def desk(target: PostgresServer) -> Iterator[Desk]:
    with running(target) as made:
        archiver = Archiver(made.gateway)
        yield made
        archiver.kill()


@pytest.fixture(scope="module")
def quiet(target: PostgresServer) -> Iterator[Desk]:
    """Sessions go on, and nothing delivers."""
    with running(target) as made:
        made.set(when_down=WhenDown.GO_ON)
        yield made


def submitted(desk: Desk, connection: str, script: str = "select 42", **fields: str) -> Session:
    gateway = desk.gateway
    work = gateway.services.sessions.submit(
        gateway.admin, connection, script, source="192.0.2.1", tracker_fields=fields
    )
    return gateway.call(work)


def test_psql_session_opens_an_issue_and_closes_it(desk: Desk) -> None:
    with psycopg.connect(desk.gateway.url(OPEN)) as client:
        assert client.execute("select 42").fetchone() == (42,)
        session = desk.gateway.newest(OPEN)
        issue = next(one for one in desk.issues() if one.session_id == session.id)
        assert issue.state is IssueState.MADE
        assert issue.issue is not None
        made = desk.jira.issues[issue.issue.key]
        assert (made.status, made.request_type, made.fields["customfield_10001"]) == (
            "To Do",
            REQUEST_TYPE,
            desk.gateway.admin.email,
        )
        assert session.integrations_metadata["tracker_issue_key"] == issue.issue.key
    desk.closed(session)


def test_connection_without_an_issue_template_never_calls_the_tracker(desk: Desk) -> None:
    before = len(desk.issues()), len(desk.jira.calls)
    assert psql(desk.gateway.url(PLAIN), "-c", "select 42").stdout.strip() == "42"
    assert desk.gateway.finished(submitted(desk, PLAIN).id).exit_code == 0
    assert desk.gateway.newest_finished(PLAIN).integrations_metadata == {}
    assert (len(desk.issues()), len(desk.jira.calls)) == before


def test_psql_without_required_issue_fields_is_denied_with_instructions(desk: Desk) -> None:
    refused = psql(desk.gateway.url(ASKS), "-c", "select 42")
    assert refused.returncode != 0
    assert "the issue of this session needs Summary (summary), Why (customfield_10002)" in refused.stderr
    assert "--issue-field NAME=VALUE of postern connect asks-why" in refused.stderr
    assert desk.gateway.sessions(connection=ASKS) == []


def test_script_passes_the_issue_fields_that_its_template_requires(desk: Desk) -> None:
    with pytest.raises(Invalid, match=r"needs Why \(customfield_10002\)"):
        submitted(desk, ASKS, summary="Look")
    session = submitted(desk, ASKS, summary="Look at 42", customfield_10002="somebody asked")
    assert session.integrations_metadata
    done = desk.closed(desk.gateway.finished(session.id))
    assert done.exit_code == 0
    made = desk.jira.issues[done.integrations_metadata["tracker_issue_key"]]
    assert (made.fields["summary"], made.fields["customfield_10002"]) == ("Look at 42", "somebody asked")


def test_tracker_failure_is_reported_in_the_protocol_of_the_client(desk: Desk) -> None:
    before = desk.gateway.sessions(connection=OPEN)
    desk.jira.faults.append(Fault(CREATE, status=503))
    refused = psql(desk.gateway.url(OPEN), "-c", "select 42")
    assert refused.returncode != 0
    assert "connection 'opens-issues' opens an issue for each session, and it could not be created" in refused.stderr
    desk.jira.faults.append(Fault(CREATE, status=503))
    with pytest.raises(Unavailable):
        submitted(desk, OPEN)
    assert desk.gateway.sessions(connection=OPEN) == before
    assert psql(desk.gateway.url(OPEN), "-c", "select 42").stdout.strip() == "42"


def test_issue_of_a_denied_session_is_closed(desk: Desk) -> None:
    """The tracker created the issue, and its answer was lost."""
    before = set(desk.jira.issues)
    desk.jira.faults.append(Fault(CREATE, done=True))
    assert psql(desk.gateway.url(OPEN), "-c", "select 42").returncode != 0
    orphan = wait_until(lambda: next(iter(set(desk.jira.issues) - before), None))
    wait_until(lambda: desk.jira.issues[orphan].status == "Done", 180)


@pytest.mark.huge
def test_issue_is_created_once_if_the_gateway_is_killed_during_the_call(quiet: Desk) -> None:
    """The kill comes right after the tracker created the issue, whose session continues."""
    gateway, jira = quiet.gateway, quiet.jira
    jira.faults.append(Fault(CREATE, done=True, hangs=True))
    session = submitted(quiet, OPEN)
    assert gateway.finished(session.id).exit_code == 0
    assert session.integrations_metadata == {}
    dying = Archiver(gateway)
    wait_until(lambda: any(str(session.id) in str(made.fields) for made in jira.issues.values()), 60)
    dying.kill()
    jira.faults.clear()
    living = Archiver(gateway)
    try:
        quiet.closed(session)
    finally:
        living.kill()


def test_issue_is_created_later_if_the_tracker_was_unavailable(quiet: Desk) -> None:
    quiet.jira.faults.extend(Fault(status=503) for _ in range(3))
    assert psql(quiet.gateway.url(OPEN), "-c", "select 42").stdout.strip() == "42"
    session = quiet.gateway.newest_finished(OPEN)
    assert session.status is SessionStatus.DONE
    archiver = Archiver(quiet.gateway)
    try:
        quiet.closed(session)
    finally:
        archiver.kill()
    assert TOKEN.encode() not in archiver.log.read_bytes()


def test_concurrent_sessions_have_one_issue_each(desk: Desk) -> None:
    async def all_of(count: int) -> list[str]:
        url = desk.gateway.url(OPEN)

        async def one() -> str:
            async with await psycopg.AsyncConnection.connect(url) as client:
                found = await (await client.execute("select 42")).fetchone()
            assert found == (42,)
            return "done"

        return list(await asyncio.gather(*(one() for _ in range(count))))

    before = {session.id for session in desk.gateway.sessions(connection=OPEN)}
    assert asyncio.run(all_of(12)) == ["done"] * 12
    desk.gateway.all_closed(connection=OPEN)
    new = [session for session in desk.gateway.sessions(connection=OPEN) if session.id not in before]
    assert len(new) == 12
    keys = {desk.closed(session).integrations_metadata["tracker_issue_key"] for session in new}
    assert len(keys) == 12
