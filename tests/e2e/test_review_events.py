"""What reviewers and sinks receive about reviews: affected rows of a held statement, and events at a webhook."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import psycopg
import pytest
from tests.e2e.test_reviews import Asking
from tests.e2e.test_waiting_clients import Holder, is_cut
from tests.services.notifications.test_events import closed
from tests.support.accounts import signed_in
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.receivers import HttpReceiver, http_receiver, issued
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow

RULES = [
    {"type": "require_where", "name": "where", "action": "review"},
    {"type": "deny_statements", "name": "no ddl", "effects": ["ddl"], "action": "deny", "unknown": "allow"},
]
NAME = "asked"
REFUSED = psycopg.errors.InsufficientPrivilege


@dataclass
class Office:
    """`admin` sets up, `ann` asks, `dba` reviews: each as a client of the API."""

    gateway: Gateway
    admin: httpx.Client
    ann: httpx.Client
    dba: httpx.Client

    def url(self, connection: str) -> str:
        """For a native client, with a new credential of Ann's."""
        made = self.ann.post(f"/connections/{connection}/credentials", json={})
        assert made.status_code == 201, made.text
        login = made.json()
        place = f"localhost:{login['port']}/postgres?sslmode=disable"
        return f"postgresql://{quote(login['username'])}:{quote(login['password'])}@{place}"

    def let_in(self, connection: str) -> tuple[str, psycopg.Connection]:
        """Ann, and by which review."""
        holder = Holder(self.url(connection))
        review: str = self.waiting("jit")["id"]
        self.decide(review, "APPROVED")
        return review, holder.done()

    def script(self, connection: str) -> tuple[str, str]:
        """One of Ann's that waits: its session and its review."""
        answer = self.ann.post("/sessions", json={"connection": connection, "script": "select 40 + 2"})
        assert answer.status_code == 202, answer.text
        return answer.json()["session_id"], answer.json()["review"]["id"]

    def waiting(self, kind: str) -> dict[str, Any]:
        """The first review that waits for the dba."""

        def found() -> list[dict[str, Any]]:
            answer = self.dba.get("/reviews", params={"waiting_for_me": "true", "type": kind})
            data: list[dict[str, Any]] = answer.json()["data"]
            return data

        return wait_until(found)[0]

    def review(self, client: httpx.Client, review_id: str) -> dict[str, Any]:
        answer = client.get(f"/reviews/{review_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def decide(self, review_id: str, status: str, comment: str = "", *, by: httpx.Client | None = None) -> None:
        """By the dba, unless told."""
        answer = (by or self.dba).put(f"/reviews/{review_id}", json={"status": status, "comment": comment})
        assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def office(target: PostgresServer) -> Iterator[Office]:
    with started("--no-demo", "--sink-networks", "127.0.0.1") as gateway:
        admin = signed_in(gateway)
        ann, dba = (_person(admin, name, group) for name, group in (("ann", "dev"), ("dba", "dba")))
        place = ("HOST=127.0.0.1", f"PORT={target.port}", "USER=postgres", "DB=postgres")
        env = (f"--env={one}" for one in place)
        made = gateway.run("connections", "create", NAME, "--subtype", "postgres", *env)
        assert made.returncode == 0, made.stderr
        changed = admin.patch(f"/connections/{NAME}", json={"reviewers": ["dba"]})
        assert changed.status_code == 200, changed.text
        rail = {"name": "care", "input": {"rules": RULES}, "connection_ids": [changed.json()["id"]]}
        made_rail = admin.post("/guardrails", json=rail)
        assert made_rail.status_code == 201, made_rail.text
        yield Office(gateway, admin, ann, dba)


def _person(admin: httpx.Client, name: str, group: str) -> httpx.Client:
    password = secrets.token_urlsafe(20)
    email = f"{name}@example.com"
    body = {"email": email, "name": name, "groups": [group], "password": password, "status": "active"}
    made = admin.post("/users", json=body)
    assert made.status_code == 201, made.text
    client = httpx.Client(base_url=admin.base_url, timeout=120)
    login = client.post("/localauth/login", json={"email": email, "password": password})
    assert login.is_success, login.text
    client.headers["Authorization"] = f"Bearer {login.headers['token']}"
    return client


@pytest.fixture(autouse=True)
def watched(direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists watched")
    direct.execute("create table watched as select n from generate_series(1, 1234) n")


def rows(direct: psycopg.Connection) -> int:
    found = direct.execute("select count(*) from watched where n > 0").fetchone()
    assert found is not None
    return int(found[0])


def test_reviewers_see_the_estimated_row_count_and_the_requester_does_not(
    office: Office, direct: psycopg.Connection
) -> None:
    _, connection = office.let_in(NAME)
    asking = Asking(connection, "update watched set n = -n")
    review = str(office.waiting("statement")["id"])
    shown = wait_until(lambda: office.review(office.dba, review)["estimate"])
    assert (shown["rows"], shown["more"]) == (1234, False)
    assert shown["said"][0].startswith("UPDATE")
    assert "1,234 rows" in shown["said"][0]
    assert office.review(office.admin, review)["estimate"] == shown
    office.decide(review, "REJECTED", "in parts, please")
    assert isinstance(asking.done().error, REFUSED)
    connection.close()
    own = office.review(office.ann, review)
    assert (own["input"], own["estimate"]) == ("update watched set n = -n", None)
    told = [*asking.told, str(asking.error), json.dumps(own)]
    told += [office.ann.get(f"/{path}").text for path in ("reviews", f"sessions/{own['session']}")]
    assert not any("1234" in text or "1,234" in text for text in told)
    assert rows(direct) == 1234


@contextmanager
def receiving() -> Iterator[HttpReceiver]:
    """A webhook's receiver, on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack = AsyncExitStack()
    receiver = asyncio.run_coroutine_threadsafe(stack.enter_async_context(http_receiver()), loop).result(60)
    try:
        yield receiver
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


def is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """As https://www.standardwebhooks.com has it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()
    return f"v1,{wanted}" in headers["webhook-signature"].split(" ")


def lived(office: Office) -> list[tuple[str, str]]:
    """Reviews of each kind, and what a webhook must be told of them: kind of event and review."""
    jit, connection = office.let_in(NAME)
    with pytest.raises(REFUSED, match="no ddl"):
        connection.execute("drop table watched")
    statements = []
    for status in ("REJECTED", "APPROVED"):
        asking = Asking(connection, "delete from watched")
        statements.append(str(office.waiting("statement")["id"]))
        office.decide(statements[-1], status, "as asked")
        asking.done()
    office.decide(jit, "REVOKED", "enough", by=office.admin)
    assert "was revoked" in is_cut(connection)
    session, script = office.script(NAME)
    office.decide(script, "APPROVED")
    assert office.ann.post(f"/sessions/{session}/exec").status_code in (200, 202)
    wait_until(lambda: office.review(office.ann, script)["status"] == "EXECUTED")
    _, withdrawn = office.script(NAME)
    assert office.ann.post(f"/reviews/{withdrawn}/withdraw").status_code == 200
    return [
        *((f"review.{event}", jit) for event in ("created", "approved")),
        *((f"review.{event}", statements[0]) for event in ("created", "rejected")),
        *((f"review.{event}", statements[1]) for event in ("created", "approved")),
        ("review.revoked", jit),
        *((f"review.{event}", script) for event in ("created", "approved", "started", "executed")),
        *((f"review.{event}", withdrawn) for event in ("created", "withdrawn")),
    ]


def test_webhook_receives_reviews_and_violations_in_order(office: Office) -> None:
    schemas = office.ann.get("/events/schemas").json()
    kinds = [kind for kind in schemas if kind.startswith(("review.", "guardrail.", "session."))]
    with receiving() as receiver:
        sink = {"name": "siem", "kind": "webhook", "address": receiver.url, "authority": issued().authority}
        made = office.admin.post("/sinks", json=sink | {"events": kinds, "with_script": True})
        assert made.status_code == 201, made.text
        wanted = lived(office)

        def told() -> list[tuple[str, str]]:
            return [(one["type"], one["data"]["id"]) for one in receiver.events if one["type"].startswith("review.")]

        def violations() -> list[dict[str, Any]]:
            return [one["data"] for one in receiver.events if one["type"] == "guardrail.violation"]

        wait_until(lambda: len(told()) >= len(wanted) and len(violations()) >= 4, 60)
        assert told() == wanted
        found = violations()
        assert [one["number"] for one in found] == [1, 2, 3, 4]
        assert [one["action"] for one in found] == ["deny", "review", "deny", "review"]  # rejected is refused
        assert [one["statement"] for one in found] == ["drop table watched", *["delete from watched"] * 3]
        assert "rejected it: as asked" in found[2]["message"]
        got = list(receiver.got)
    assert len({headers["webhook-id"] for headers, _ in got}) == len(got)
    for headers, body in got:
        assert is_signed(made.json()["secret"], headers, body)
        event = json.loads(body)
        assert headers["webhook-id"] == event["id"]
        schema = closed(schemas[event["type"]])
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(event)
    (revoked,) = (json.loads(body) for _, body in got if b'"review.revoked"' in body)
    voices = [(one["status"], one["reviewed_by"]["email"]) for one in revoked["data"]["voices"]]
    assert voices == [("APPROVED", "dba@example.com"), ("REVOKED", "admin@localhost")]
