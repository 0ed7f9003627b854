"""Teams, e-mail and Apprise, against servers that accept what is documented."""

from __future__ import annotations

import asyncio
import email
import email.policy
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from tests.support.receivers import LOOPBACK, http_receiver, issued, server_context
from tests.support.world import START

from postern.domain.chat import Card
from postern.domain.secret import Secret
from postern.domain.sink import Sink, SinkKind
from postern.errors import Denied, Invalid, NotFound, TooMany, Unavailable
from postern.integrations.chat import teams as cards
from postern.integrations.chat.apprise import Apprise
from postern.integrations.chat.email import EmailNotifier
from postern.integrations.chat.teams import MAX_BODY, Teams
from postern.integrations.sinks.receivers import Receivers
from postern.services.notifications.chat_fields import APPRISE_DIRECT, APPRISE_HOSTED, address_of, checked_chat

HOSTILE = "[Approve](https://evil.example) **APPROVED** <b>x</b>"
URL = "https://pg.example.com/reviews/1"


def card(**changes: Any) -> Card:
    values: dict[str, Any] = {
        "review_id": UUID(int=1),
        "title": "ann@example.com asks to run a script on shop",
        "state": "Waiting for a decision",
        "facts": (("Reason", HOSTILE), ("Requested by", "ann@example.com")),
        "input": "delete from orders",
        "url": URL,
        "is_open": True,
        "may_force": False,
    }
    return Card(**(values | changes))


def sink(kind: SinkKind, address: str = "", **more: Any) -> Sink:
    return Sink(UUID(int=2), uuid4(), "reviews", kind, address, (), authority=issued().authority, **more)


def words(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for name, value in content.items():
            if name in ("text", "value", "title") and isinstance(value, str):
                yield value
            yield from words(value)
    elif isinstance(content, list):
        for one in content:
            yield from words(one)


async def test_teams_receives_a_card_with_a_link() -> None:
    """A workflow answers with status 202."""
    async with http_receiver(status=202) as receiver:
        teams = Teams(receivers := Receivers(LOOPBACK))
        there = sink(SinkKind.TEAMS, keys={"url": Secret(f"{receiver.url}?sig=secret")})
        await teams.notify(there, card(), None, uuid4())
        await teams.notify(there, card(is_open=False, state="APPROVED by bob@example.com"), None, uuid4())
        await teams.say(there, "a test")
        await receivers.close()
    headers, body = receiver.got[0]
    assert headers[":path"] == "/events?sig=secret"
    assert headers["content-type"] == "application/json"
    sent = json.loads(body)
    assert sent["type"] == "message"
    (attachment,) = sent["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    content = attachment["content"]
    assert (content["type"], content["version"]) == ("AdaptiveCard", "1.4")
    assert content["actions"] == [{"type": "Action.OpenUrl", "title": "Decide", "url": URL}]
    assert json.loads(receiver.got[1][1])["attachments"][0]["content"]["actions"][0]["title"] == "Open the review"
    assert not any("](" in text or "**" in text for text in words(content["body"]))


async def test_teams_card_is_never_too_large() -> None:
    many = tuple((f"Said {number}", "x" * 1_000 + "é" * 100) for number in range(100))
    async with http_receiver(status=202) as receiver:
        teams = Teams(receivers := Receivers(LOOPBACK))
        there = sink(SinkKind.TEAMS, keys={"url": Secret(receiver.url)})
        await teams.notify(there, card(facts=many, input="é" * 100_000), None, uuid4())
        await receivers.close()
    assert len(receiver.got[0][1]) <= MAX_BODY


@pytest.mark.parametrize("letter", ["\U0001f600", "é", "*", "\\"])
def test_attack_teams_card_with_any_user_text_stays_within_the_limit(letter: str) -> None:
    """A card over the limit would never be delivered."""
    facts = tuple((f"Said {number}", letter * 1_000) for number in range(30))
    made = cards.message(card(facts=facts, input=letter * 9_000, title=letter * 400, state=letter * 3_000))
    assert len(json.dumps(made)) <= MAX_BODY
    assert made["attachments"][0]["content"]["actions"]


@pytest.mark.parametrize(
    ("status", "error"), [(400, Denied), (404, Unavailable), (410, NotFound), (429, TooMany), (502, Unavailable)]
)
async def test_rejection_by_teams_raises_the_matching_error(status: int, error: type[Exception]) -> None:
    async with http_receiver(status=status, headers="Retry-After: 17\r\n") as receiver:
        teams = Teams(receivers := Receivers(LOOPBACK))
        there = sink(SinkKind.TEAMS, keys={"url": Secret(receiver.url)})
        with pytest.raises(error) as told:
            await teams.notify(there, card(), None, uuid4())
        await receivers.close()
    assert getattr(told.value, "retry_after", None) == (17 if status == 429 else None)


class Mailbox:
    def __init__(self) -> None:
        self.got: list[EmailMessage] = []
        self.to: list[list[str]] = []
        self.encrypted: list[bool] = []
        self.refused: frozenset[str] = frozenset()
        self.answer = "250 OK"

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        content = envelope.content
        assert isinstance(content, bytes)
        self.got.append(email.message_from_bytes(content, policy=email.policy.default))
        self.to.append(list(envelope.rcpt_tos))
        self.encrypted.append(session.ssl is not None)
        return self.answer


def _login(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"postern", b"a password")
    return AuthResult(success=good, handled=good)


@asynccontextmanager
async def mail_server(box: Mailbox, **more: Any) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(box, hostname="localhost", loop=loop, **more), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def starttls() -> dict[str, Any]:
    context = server_context()
    return {
        "tls_context": context,
        "require_starttls": True,
        "authenticator": _login,
        "auth_required": True,
        "auth_require_tls": True,
    }


def mail_sink(address: str, **more: Any) -> Sink:
    options = {"from": "postern@example.com", "to": "bob@example.com, eve@example.com"}
    return sink(SinkKind.EMAIL, address, options=options, **more)


KEYS = {"username": Secret("postern"), "password": Secret("a password")}


async def test_mail_has_text_and_html_over_starttls_and_is_threaded() -> None:
    box, mail = Mailbox(), EmailNotifier(Receivers(LOOPBACK), "gateway.example.com", lambda: START)
    first_event, second_event = uuid4(), uuid4()
    async with mail_server(box, **starttls()) as port:
        there = mail_sink(f"smtp+starttls://localhost:{port}", keys=KEYS)
        known = await mail.notify(there, card(), None, first_event)
        assert await mail.notify(there, card(), None, first_event) == known  # a second try
        assert await mail.notify(there, card(state="APPROVED by bob@example.com"), known, second_event) == known
    assert box.encrypted == [True, True, True]
    assert box.to[0] == ["bob@example.com", "eve@example.com"]
    first, again, second = box.got
    assert first["Subject"] == "ann@example.com asks to run a script on shop: Waiting for a decision"
    assert first["Message-ID"] == again["Message-ID"] == known[1]
    assert second["Message-ID"] != known[1]
    assert (second["In-Reply-To"], second["References"]) == (known[1], known[1])
    text, html = first.get_body(("plain",)), first.get_body(("html",))
    assert text is not None
    assert html is not None
    assert URL in text.get_content()
    assert "delete from orders" in text.get_content()
    assert "<b>x</b>" not in html.get_content()
    assert "&lt;b&gt;x&lt;/b&gt;" in html.get_content()


async def test_user_text_never_adds_a_header_to_a_mail() -> None:
    box, mail = Mailbox(), EmailNotifier(Receivers(LOOPBACK), "gateway.example.com", lambda: START)
    async with mail_server(box) as port:
        there = mail_sink(f"smtp://localhost:{port}")
        title = "ann\r\nBcc: all@example.com\r\n\r\nforged\u2028x"
        await mail.notify(there, card(title=title), None, uuid4())
    (got,) = box.got
    assert got["Bcc"] is None
    assert got["Subject"].startswith("ann Bcc: all@example.com forged")
    assert box.to == [["bob@example.com", "eve@example.com"]]


async def test_mail_never_goes_without_tls_or_to_another_host() -> None:
    box, mail = Mailbox(), EmailNotifier(Receivers(LOOPBACK), "gateway.example.com", lambda: START)
    async with mail_server(box) as port:  # speaks no TLS
        for scheme in ("smtp+starttls", "smtps"):
            with pytest.raises(Unavailable):
                await mail.notify(mail_sink(f"{scheme}://localhost:{port}"), card(), None, uuid4())
    async with mail_server(box, **starttls()) as port:
        stranger = mail_sink(f"smtp+starttls://localhost:{port}", keys=KEYS)
        trusting = Sink(
            stranger.id, stranger.org_id, "x", stranger.kind, stranger.address, (), options=stranger.options
        )
        with pytest.raises(Unavailable):  # an authority that nobody trusts
            await mail.notify(trusting, card(), None, uuid4())
        by_address = mail_sink(f"smtp+starttls://127.0.0.1:{port}", keys=KEYS)
        with pytest.raises(Unavailable):  # the certificate is for the name
            await mail.notify(by_address, card(), None, uuid4())
        wrong = {"username": Secret("postern"), "password": Secret("another")}
        with pytest.raises(Unavailable, match="user name or password"):
            await mail.notify(mail_sink(f"smtp+starttls://localhost:{port}", keys=wrong), card(), None, uuid4())
        with pytest.raises(Unavailable):  # loopback is not among the networks
            await EmailNotifier(Receivers(), "x", lambda: START).notify(
                mail_sink(f"smtp+starttls://localhost:{port}", keys=KEYS), card(), None, uuid4()
            )
    assert box.got == []


async def test_rejection_by_a_mail_server_raises_the_matching_error() -> None:
    box, mail = Mailbox(), EmailNotifier(Receivers(LOOPBACK), "gateway.example.com", lambda: START)
    async with mail_server(box) as port:
        there = mail_sink(f"smtp://localhost:{port}")
        for answer, error in (("552 too large", Denied), ("451 try later", Unavailable)):
            box.answer = answer
            with pytest.raises(error):
                await mail.notify(there, card(), None, uuid4())
        box.answer, box.refused = "250 OK", frozenset({"bob@example.com"})
        await mail.notify(there, card(), None, uuid4())
        assert box.to[-1] == ["eve@example.com"]
        box.refused = frozenset({"bob@example.com", "eve@example.com"})
        with pytest.raises(Denied):
            await mail.notify(there, card(), None, uuid4())


@contextmanager
def json_server(status: int = 200) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")  # type: ignore[attr-defined]
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def apprise(*networks: Any) -> Apprise:
    return Apprise(Receivers(networks), APPRISE_HOSTED, APPRISE_DIRECT)


@pytest.mark.ci
async def test_apprise_delivers_and_follows_no_redirects() -> None:
    with json_server() as (port, got):
        there = sink(SinkKind.APPRISE, keys={"url": Secret(f"json://127.0.0.1:{port}/x")})
        await apprise(*LOOPBACK).notify(there, card(), None, uuid4())
        await apprise(*LOOPBACK).say(there, "a test")
    assert got[0]["title"] == "ann@example.com asks to run a script on shop"
    assert URL in got[0]["message"]
    assert got[1]["message"] == "a test"
    with json_server(307) as (port, got):
        there = sink(SinkKind.APPRISE, keys={"url": Secret(f"json://127.0.0.1:{port}/x?redirect=yes")})
        with pytest.raises(Unavailable):
            await apprise(*LOOPBACK).say(there, "a test")
        assert len(got) == 1


async def test_attack_timeouts_in_an_apprise_address_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rto` and `cto` of an address would block a thread for any time."""
    asked: list[Any] = []

    def request(_: object, method: str, url: str, **more: Any) -> None:
        asked.append(more["timeout"])
        raise ConnectionError

    monkeypatch.setattr("requests.Session.request", request)
    there = sink(SinkKind.APPRISE, keys={"url": Secret("json://127.0.0.1:1/x?rto=86400&cto=86400")})
    with pytest.raises(Unavailable):
        await apprise(*LOOPBACK).say(there, "a test")
    assert asked == [(4.0, 4.0)]


async def test_apprise_connects_only_to_allowed_addresses() -> None:
    with json_server() as (port, got):
        for url, networks in (
            (f"json://127.0.0.1:{port}", ()),
            (f"json://localhost:{port}", LOOPBACK),
            (f"json://example.com:{port}", LOOPBACK),
            ("json://169.254.169.254/latest", LOOPBACK),
            (f"xmpp://127.0.0.1:{port}", LOOPBACK),
            ("dbus://", LOOPBACK),
        ):
            with pytest.raises((Denied, Unavailable)):
                await apprise(*networks).say(sink(SinkKind.APPRISE, keys={"url": Secret(url)}), "a test")
        assert got == []


@pytest.mark.parametrize(
    "url",
    [
        "json://u@127.0.0.2@127.0.0.1:{port}/x",  # the last @ is not what Apprise reads
        "jsons://u@127.0.0.2@127.0.0.1:{port}/x",
        "discord://1234567890/abcdefghijklmnop?template=http://127.0.0.1:{port}/x",
        "discord://1234567890/abcdefghijklmnop?TEMPLATE=/etc/hostname",
        "tgram://123456789:abcdefg_hijklmnopqrstuvwxyzABCDEFG/1234?template=http://127.0.0.1:{port}/x",
        "betterstack://aaaaaaaaaaaaaaaaaaaaaaaa@127.0.0.1:{port}",
    ],
)
async def test_attack_apprise_address_parsed_differently_by_the_check_is_denied(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def request(_: object, method: str, url: str, **more: object) -> None:
        asked.append(url)
        raise OSError

    monkeypatch.setattr("requests.Session.request", request)
    with pytest.raises(Denied):
        await apprise(*LOOPBACK).say(sink(SinkKind.APPRISE, keys={"url": Secret(url.format(port=1))}), "a test")
    assert asked == []


@pytest.mark.parametrize(
    "url",
    [
        "betterstack://aaaaaaaaaaaaaaaaaaaaaaaa@127.0.0.1:80",
        *("dbus://", "windows://", "macosx://", "gnome://", "syslog://", "file:///etc/passwd", "exec://id", "smpp://x"),
        *("https://discord.com/api/webhooks/1/2", "discord://1/2, dbus://", "json://127.0.0.1 dbus://", "", "discord"),
    ],
)
def test_apprise_services_that_act_on_this_machine_are_rejected(url: str) -> None:
    given = sink(SinkKind.APPRISE, keys={"url": Secret(url)})
    with pytest.raises(Invalid):
        address_of(checked_chat(given), None)


def test_secrets_of_a_chat_address_are_not_shown() -> None:
    hosted = sink(SinkKind.APPRISE, keys={"url": Secret("discord://secretid/secrettoken")})
    teams = sink(SinkKind.TEAMS, keys={"url": Secret("https://flows.example.com/x?sig=secret")})
    assert address_of(checked_chat(hosted), None) == "discord://…"
    assert address_of(checked_chat(teams), None) == "https://flows.example.com/…"
    with pytest.raises(Invalid):
        address_of(teams, "https://flows.example.com/x?sig=secret")


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "smtp://mail.example.com:25"},
        {"address": "smtps://mail.example.com"},
        {"address": "smtps://a:b@mail.example.com:465"},
        {"options": {"from": "a@example.com", "to": ""}},
        {"options": {"from": "a@example.com\r\nBcc: x@example.com", "to": "b@example.com"}},
        {"options": {"from": "Ann <a@example.com>", "to": "b@example.com"}},
        {"options": {"from": "a@example.com", "to": ",".join(f"u{n}@example.com" for n in range(51))}},
        {"keys": {"username": Secret("only")}},
    ],
)
def test_invalid_mail_settings_are_rejected(changes: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "address": "smtps://mail.example.com:465",
        "options": {"from": "a@example.com", "to": "b@example.com"},
    }
    assert address_of(checked_chat(sink(SinkKind.EMAIL, **good)), None) == good["address"]
    with pytest.raises(Invalid):
        address_of(checked_chat(sink(SinkKind.EMAIL, **(good | changes))), None)
