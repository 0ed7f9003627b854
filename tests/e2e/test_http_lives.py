"""Sessions of HTTP from their review to their end: what runs, what is held, and what ends them in the middle of a
request. That it is so for every protocol is in test_features.py."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.e2e.test_http_clients import Opened
from tests.e2e.test_waiting_clients import person, reviews_of, waiting
from tests.support.gateway import Gateway
from tests.support.http_gateway import WebApp, login_of, web_app
from tests.support.promises import PATIENT, wait_until

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.sessions.session import Session, SessionStatus
from postern.protocols.http.recorded.http_archive import write_archive
from postern.recording.recording_library import RecordingLibrary

BROWSER = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}


@pytest.fixture(scope="module")
def app() -> Iterator[WebApp]:
    with web_app() as app:
        yield app


@pytest.fixture(params=[False, True], ids=["http1", "http2"])
def http2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Reviewed(Opened):
    """A connection, and a user of it. `reviewers` must approve sessions; requests with `held` in them are held."""

    def __init__(self, gateway: Gateway, app: WebApp, *, reviewers: tuple[str, ...] = ()) -> None:
        super().__init__(gateway, app)
        self.user: Principal = person(gateway, f"{self.name}@example.com", "dev")
        if reviewers:
            gateway.call(gateway.services.connections.update(gateway.admin, self.name, {"reviewers": reviewers}))
        rule = Rule(RuleType.PATTERN_MATCH, (), "held", "four eyes", action=Action.REVIEW)
        fields = {"name": self.name, "input": (rule,), "connection_ids": (str(self.connection.id),)}
        gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
        self.login = login_of(gateway.credential(self.name, principal=self.user))

    def decide(self, choice: Choice, comment: str = "") -> None:
        review = waiting(self.gateway, self.user)
        self.gateway.call(
            self.gateway.services.reviews.decide(self.gateway.admin, str(review.id), choice, comment=comment)
        )

    def only_session(self) -> Session:
        (session,) = self.gateway.sessions(connection=self.name)
        return session


def test_held_request_runs_once_and_others_go_on_meanwhile(gateway: Gateway, app: WebApp, http2: bool) -> None:
    opened, name = Reviewed(gateway, app), f"held-{uuid4().hex}"

    async def work() -> str:
        options: dict[str, Any] = {"verify": opened.context, "auth": opened.login, "http2": http2, "timeout": PATIENT}
        async with httpx.AsyncClient(base_url=opened.url, **options) as client:
            held = asyncio.create_task(client.post(f"/make/{name}", json={"a": "b"}))
            await asyncio.to_thread(waiting, gateway, opened.user)
            for number in range(10):
                assert (await client.get(f"/echo?{number}")).status_code == 200
            assert name not in app.made
            await asyncio.to_thread(opened.decide, Choice.APPROVED)
            return (await held).text

    assert asyncio.run(work()) == "made"
    assert app.made.count(name) == 1
    assert any(name in text for text in gateway.operations(opened.only_session().id))


def test_approval_of_one_request_is_none_for_another(gateway: Gateway, app: WebApp, http2: bool) -> None:
    opened, name = Reviewed(gateway, app), f"held-{uuid4().hex}"
    with opened.client(http2=http2) as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.post, f"/make/{name}-1")
        opened.decide(Choice.APPROVED)
        assert first.result(PATIENT).status_code == 200
        second = pool.submit(client.post, f"/make/{name}-2")
        opened.decide(Choice.REJECTED, "not today")
        answer = second.result(PATIENT)
    assert answer.status_code == 403
    assert "not today" in answer.text
    assert f"{name}-2" not in app.made


def test_client_that_gives_up_withdraws_its_request(gateway: Gateway, app: WebApp, http2: bool) -> None:
    opened, name = Reviewed(gateway, app), f"held-{uuid4().hex}"
    version = "--http2" if http2 else "--http1.1"
    words = ["curl", "--silent", version, "--cacert", opened.authority, "--user", ":".join(opened.login)]
    with subprocess.Popen([*words, "--data", "x", f"{opened.url}/make/{name}"]) as curl:
        waiting(gateway, opened.user)
        curl.terminate()
    wait_until(lambda: not reviews_of(gateway, opened.user, ReviewStatus.PENDING))
    (review,) = reviews_of(gateway, opened.user)
    assert review.status is ReviewStatus.WITHDRAWN
    with opened.client(http2=http2) as client:
        assert client.get("/echo").status_code == 200
    assert name not in app.made
    assert opened.only_session().status is SessionStatus.OPEN


def test_browser_sees_a_page_while_its_session_waits_and_programs_wait(
    gateway: Gateway, app: WebApp, http2: bool
) -> None:
    opened = Reviewed(gateway, app, reviewers=("admin",))

    async def work() -> None:  # httpx's HTTP/2 is not safe in several threads
        options: dict[str, Any] = {"verify": opened.context, "auth": opened.login, "http2": http2, "timeout": PATIENT}
        async with httpx.AsyncClient(base_url=opened.url, **options) as client:
            program = asyncio.create_task(client.get("/echo?program"))
            page = await client.get("/echo", headers=BROWSER)
            assert (page.status_code, page.headers["refresh"]) == (503, "5")
            assert "Waiting for approval" in page.text
            assert len(reviews_of(gateway, opened.user)) == 1
            await asyncio.to_thread(opened.decide, Choice.APPROVED)
            assert (await program).json()["query"] == "program"
            assert (await client.get("/echo", headers=BROWSER)).status_code == 200

    asyncio.run(work())
    assert opened.only_session().review_id is not None


def test_browser_alone_gets_its_page_after_the_approval(gateway: Gateway, app: WebApp) -> None:
    """Nobody waits between two loads of the page. The review stays, and the next load goes on with it."""
    opened = Reviewed(gateway, app, reviewers=("admin",))
    with opened.client(headers=BROWSER) as client:
        assert client.get("/echo").status_code == 503
        opened.decide(Choice.APPROVED)
        assert client.get("/echo").status_code == 200
    assert len(reviews_of(gateway, opened.user)) == 1


def test_session_that_is_killed_breaks_off_a_download(gateway: Gateway, app: WebApp, http2: bool) -> None:
    opened = Opened(gateway, app)
    received = 0
    with opened.client(http2=http2) as client:
        with pytest.raises(httpx.TransportError), client.stream("GET", "/large/100000") as response:  # noqa: PT012
            for part in response.iter_raw():
                if not received:
                    (session,) = gateway.sessions(connection=opened.name)
                    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
                received += len(part)
        assert 0 < received < 100_000 * (1 << 16)
        assert gateway.finished(session.id).metadata["end_reason"] == "killed"
        assert client.get("/echo").status_code == 200


def test_rules_change_for_a_connection_that_is_kept_alive(gateway: Gateway, app: WebApp, http2: bool) -> None:
    opened = Opened(gateway, app)
    with opened.client(http2=http2) as client:
        assert client.get("/echo?word").status_code == 200
        made = gateway.guardrail(opened.name, opened.connection, deny="word")
        wait_until(lambda: client.get("/echo?word").status_code == 403)
        assert client.get("/echo").status_code == 200
        gateway.call(gateway.services.guardrails.remove(gateway.admin, str(made.id)))
        wait_until(lambda: client.get("/echo?word").status_code == 200)
    assert len(gateway.sessions(connection=opened.name)) == 1


def test_access_that_ends_is_refused_on_a_connection_that_is_kept_alive(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app)
    ann = person(gateway, f"{opened.name}@example.com", opened.name)
    rule = {"name": opened.name, "groups": (opened.name,), "connections": (opened.name,)}
    services = gateway.services
    gateway.call(services.access_rules.create(gateway.admin, rule))
    gateway.call(services.features.put(gateway.admin, "access-control", enabled=True))
    try:
        login = login_of(gateway.credential(opened.name, principal=ann))
        with httpx.Client(base_url=opened.url, verify=opened.context, auth=login) as client:
            assert client.get("/echo").status_code == 200
            gateway.call(services.users.update(gateway.admin, ann.email, {"groups": ("others",)}))
            wait_until(lambda: client.get("/echo").status_code in (401, 403))
        assert gateway.newest_finished(opened.name, 20).metadata["end_reason"] == "revoked"
    finally:
        gateway.call(services.features.put(gateway.admin, "access-control", enabled=False))
        gateway.call(services.access_rules.remove(gateway.admin, opened.name))


def test_worker_that_is_killed_and_its_successor(app: WebApp) -> None:
    gateway = Gateway()
    try:
        gateway.start()
        opened = Opened(gateway, app)
        with opened.client() as client:
            with pytest.raises(httpx.TransportError), client.stream("GET", "/large/100000") as response:  # noqa: PT012
                for _ in response.iter_raw():
                    gateway.worker.kill()
            gateway.add_worker("w2")
            assert client.get("/echo").status_code == 200
        before, now = sorted(gateway.sessions(connection=opened.name), key=lambda one: one.start_date)
        assert (before.worker, now.worker) == ("w1", "w2")
    finally:
        gateway.stop()


def test_archive_has_every_exchange_of_all_links_and_no_secret(gateway: Gateway, app: WebApp, http2: bool) -> None:
    opened = Opened(gateway, app, HEADER_X_API_KEY="s3cret-key")
    sent = {"Cookie": "sid=s3cret", "X-Auth-Token": "s3cret", "Referer": "http://a/?token=s3cret"}

    def ask(first: int) -> set[int]:  # with a client of its own: httpx's HTTP/2 is not safe in several threads
        with opened.client(http2=http2) as client:
            paths = [f"/cookie?n={number}&token=s3cret" for number in range(first, 40, 8)]
            return {client.get(path, headers=sent).status_code for path in paths}

    with ThreadPoolExecutor(8) as pool:
        assert set().union(*pool.map(ask, range(8))) == {200}
    (session,) = gateway.sessions(connection=opened.name)
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    done = gateway.finished(session.id)
    recordings = gateway.services.sessions.recordings
    assert isinstance(recordings, RecordingLibrary)
    archive = b"".join(write_archive(recordings.records(done), done.start_date, opened.name))
    entries: list[dict[str, Any]] = json.loads(archive)["log"]["entries"]
    urls = [entry["request"]["url"] for entry in entries]
    assert {f"n={number}&" in url for number, url in enumerate(sorted(urls, key=_number))} == {True}
    assert {entry["response"]["status"] for entry in entries} == {200}
    assert len(entries) == 40
    # The application itself shows the cookie of a request in its body: nobody can know that it is one.
    shown = json.dumps([[entry["request"], entry["response"]["headers"]] for entry in entries])
    assert "s3cret" not in shown
    assert opened.login[1] not in archive.decode()
    assert len(list(gateway.services.sessions.operations(done))) == 40


def _number(url: str) -> int:
    return int(url.partition("n=")[2].partition("&")[0])


def test_session_whose_clients_leave_can_be_used_again_and_ends_by_itself(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app)
    for _ in range(3):
        with opened.client() as client:
            client.get("/echo")
    (session,) = gateway.sessions(connection=opened.name)
    assert session.status is SessionStatus.OPEN


def test_many_sessions_are_killed_while_they_work(gateway: Gateway, app: WebApp) -> None:
    """Clients that are answered, or broken off; none hangs, and every session is closed."""
    opened = Opened(gateway, app)
    stopping = threading.Event()
    wrong: list[object] = []

    def work(number: int) -> int:
        answered = 0
        with opened.client(http2=number % 2 == 0) as client:
            while not stopping.is_set():
                try:
                    answer = client.post(f"/echo?{number}", content=b"x" * 10_000)
                    if answer.status_code == 200 and answer.json()["query"] != str(number):
                        wrong.append(answer.text)
                    elif answer.status_code not in (200, 503):
                        wrong.append((answer.status_code, answer.text))
                    answered += answer.status_code == 200
                except httpx.TransportError:
                    continue
        return answered

    with ThreadPoolExecutor(6) as pool:
        working = [pool.submit(work, number) for number in range(6)]
        for _ in range(8):
            time.sleep(0.4)
            for session in gateway.sessions(connection=opened.name, status=SessionStatus.OPEN):
                gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        stopping.set()
        answers = [one.result(PATIENT) for one in working]
    assert wrong == []
    assert all(answers)
    finished: Callable[[Session], bool] = lambda one: one.status is SessionStatus.DONE  # noqa: E731
    killed = [one for one in gateway.sessions(connection=opened.name) if finished(one)]
    assert len(killed) >= 5
    assert {one.metadata["end_reason"] for one in killed} == {"killed"}
