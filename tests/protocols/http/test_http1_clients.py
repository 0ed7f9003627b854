"""HTTP/1.1 clients at the gate: logins, sessions, bodies, ends."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from tests.support.http_site import AUTHORIZED, BASIC, PASSWORD, USER, AppExchange, Raw, ended, http_site
from tests.support.promises import until

from postern.domain.sessions.session import EndReason
from postern.errors import Denied, Unavailable
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.listener import http_sessions, http_stream
from postern.protocols.http.listener.http_client_exchange import GatewayResponse, HttpVisitor
from postern.store.ports.common_ports import Topic


async def echo(exchange: AppExchange) -> None:
    """Answer with what arrived."""
    body = await exchange.body()
    head = exchange.head
    shown = f"{head.method} {head.target} at {head.authority}\n".encode()
    headers = b"".join(b"%b: %b\n" % pair for pair in head.headers)
    await exchange.respond(200, shown + headers + b"\n" + body, (b"content-type", b"text/plain"))


def basic(user: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


LOGINS = {
    "basic": AUTHORIZED,
    "lower case": b"authorization: basic " + BASIC[6:].encode() + b"\r\n",
    "bearer": f"Authorization: Bearer {USER}.{PASSWORD}\r\n".encode(),
    "bearer with a colon": f"Authorization: Bearer {USER}:{PASSWORD}\r\n".encode(),
    "own header": b"Postern-Authorization: " + BASIC.encode() + b"\r\n",
    "own header with a token": f"Postern-Authorization: Bearer {USER}.{PASSWORD}\r\n".encode(),
    "cookie": f"Cookie: a=1; postern={USER}.{PASSWORD}; b=2\r\n".encode(),
}


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
async def test_credential_lets_in_and_does_not_reach_the_application(login: bytes) -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        answer = await client.get("/where?a=1", more=login)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"GET /where?a=1 at app.internal:8080\n" in answer
        assert PASSWORD.encode() not in answer
        assert base64.b64encode(PASSWORD.encode()).rstrip(b"=")[2:-2] not in answer
        assert b"authorization" not in answer
        assert (b"cookie: a=1; b=2\n" in answer) is login.startswith(b"Cookie")
        client.close()


@pytest.mark.parametrize("own", [LOGINS["own header"], LOGINS["cookie"]])
async def test_authorization_of_the_application_stays(own: bytes) -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        answer = await client.get(more=own + b"Authorization: Bearer of-the-application\r\n")
        assert b"authorization: Bearer of-the-application\n" in answer
        client.close()


WRONG = {
    "none": b"",
    "wrong password": b"Authorization: " + basic(USER, "wrong") + b"\r\n",
    "unknown user": b"Authorization: " + basic("bob-shop-abcdef", PASSWORD) + b"\r\n",
    "no credential of the gateway": b"Authorization: " + basic("admin", PASSWORD) + b"\r\n",
    "not base64": b"Authorization: Basic !!!\r\n",
    "no colon": b"Authorization: Basic aGVsbG8=\r\n",
    "two": AUTHORIZED + AUTHORIZED,
    "cookie for TLS": f"Cookie: __Host-postern={USER}.{PASSWORD}\r\n".encode(),
    "very long": b"Authorization: " + basic(USER, "x" * 5000) + b"\r\n",
    "surrogates": b"Authorization: Basic " + base64.b64encode(b"\xff:\xfe") + b"\r\n",
}


@pytest.mark.parametrize("login", WRONG.values(), ids=WRONG)
async def test_request_without_a_valid_credential_is_refused(login: bytes) -> None:
    async with http_site(echo) as (site, port):
        client = await Raw.connect(port)
        answer = await client.get(more=login)
        assert answer.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        assert b"Www-Authenticate: Basic realm=" in answer or b"WWW-Authenticate: Basic realm=" in answer
        assert not site.opened
        client.close()


async def test_wrong_password_costs_the_connection() -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        assert b"Connection: close" in await client.get(more=WRONG["wrong password"])
        assert await client.rest() == b""


@pytest.mark.parametrize("login", [name for name in WRONG if name != "none"])
async def test_wrong_credential_after_a_right_one_is_refused(login: str) -> None:
    async with http_site(echo) as (site, port):
        client = await Raw.connect(port)
        assert (await client.get()).startswith(b"HTTP/1.1 200")
        assert (await client.get(more=WRONG[login])).startswith(b"HTTP/1.1 401")
        assert len(site.opened) == 1
        client.close()


async def test_request_without_a_credential_after_one_with_it_is_refused() -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        for _ in range(2):
            assert (await client.get()).startswith(b"HTTP/1.1 200")
            assert (await client.get(more=b"")).startswith(b"HTTP/1.1 401")
        client.close()


async def test_program_can_send_its_credential_after_401() -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        assert (await client.get(more=b"")).startswith(b"HTTP/1.1 401")
        assert (await client.get()).startswith(b"HTTP/1.1 200")
        client.close()


async def test_connection_without_a_login_ends_in_time() -> None:
    async with http_site(echo) as (_, port):
        for beginning in (b"", b"GET / HTTP/1.1\r\nHos", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"):
            client = await Raw.connect(port)
            await client.send(beginning)
            async with asyncio.timeout(10):
                await client.rest()


async def test_many_requests_without_a_credential_end_the_connection() -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        answers = [await client.get(more=b"") for _ in range(10)]
        assert b"Connection: close" in answers[-1]
        assert await client.rest() == b""


async def test_password_is_checked_once_for_a_connection_and_again_after_a_change() -> None:
    async with http_site(echo) as (site, port):
        client = await Raw.connect(port)
        for _ in range(3):
            await client.get()
        assert site.verified == 1
        site.revoked = True
        await site.signals.publish(Topic.CREDENTIAL_REVOKED, credential_id=str(site.credential_id))
        await ended(site, 1)
        assert (await client.get()).startswith(b"HTTP/1.1 401")
        assert site.verified == 2


async def test_requests_of_all_connections_are_one_session() -> None:
    async with http_site(echo) as (site, port):
        clients = [await Raw.connect(port) for _ in range(5)]
        await asyncio.gather(*(client.get() for client in clients))
        await clients[0].get()
        assert len(site.opened) == 1
        assert site.links.running == 1
        assert site.metadata[0]["client_address"] == "127.0.0.1"
        for client in clients:
            client.close()
        await asyncio.sleep(0.05)
        assert not site.ended


async def test_free_links_are_used_again() -> None:
    async with http_site(echo) as (site, port):
        client = await Raw.connect(port)
        for _ in range(5):
            await client.get()
        assert len(site.lanes) == 1
        client.close()


async def test_link_that_is_not_used_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "LINK_IDLE", 0.05)
    async with http_site(echo) as (site, port):
        client = await Raw.connect(port)
        await client.get()
        await until(lambda: site.lanes[0].lost)
        assert (await client.get()).startswith(b"HTTP/1.1 200")
        assert (len(site.lanes), len(site.opened)) == (2, 1)
        client.close()


async def test_pipelined_requests_are_answered_in_order() -> None:
    async def slow_first(exchange: AppExchange) -> None:
        if exchange.head.path == "/1":
            await asyncio.sleep(0.05)
        await exchange.respond(200, exchange.head.path.encode())

    async with http_site(slow_first) as (_, port):
        client = await Raw.connect(port)
        heads = [f"GET /{number} HTTP/1.1\r\nHost: a\r\n".encode() + AUTHORIZED + b"\r\n" for number in (1, 2, 3)]
        await client.send(b"".join(heads))
        assert [(await client.response())[-2:] for _ in heads] == [b"/1", b"/2", b"/3"]
        client.close()


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 11\r\n\r\nhello world",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    ],
    ids=["length", "chunked"],
)
async def test_body_arrives(framing: bytes) -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        for _ in range(2):
            await client.send(b"POST /x HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + framing)
            assert (await client.response()).endswith(b"\n\nhello world")
        client.close()


async def test_client_is_told_to_continue_once_it_is_let_in() -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        await client.send(
            b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n" + AUTHORIZED + b"\r\n"
        )
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hello")
        assert (await client.response()).endswith(b"\n\nhello")
        await client.send(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        answer = await client.response()
        assert answer.startswith(b"HTTP/1.1 401")
        assert b"Connection: close" in answer
        client.close()


async def test_response_without_a_length_is_chunked_with_its_trailers() -> None:
    async def stream(exchange: AppExchange) -> None:
        await exchange.begin(ResponseHead(200))
        await exchange.write(b"one")
        await exchange.write(b"two")
        await exchange.end(((b"x-sum", b"7"),))

    async with http_site(stream) as (_, port):
        client = await Raw.connect(port)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        assert (await client.reader.readuntil(b"X-Sum: 7\r\n\r\n")).endswith(
            b"3\r\none\r\n3\r\ntwo\r\n0\r\nX-Sum: 7\r\n\r\n"
        )
        client.close()


async def test_client_of_http_1_0_gets_the_body_until_the_end() -> None:
    async def stream(exchange: AppExchange) -> None:
        await exchange.begin(ResponseHead(200))
        await exchange.write(b"whole")
        await exchange.end()

    async with http_site(stream) as (_, port):
        client = await Raw.connect(port)
        await client.send(b"GET / HTTP/1.0\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        answer = await client.rest()
        assert b"Transfer-Encoding" not in answer
        assert answer.endswith(b"\r\n\r\nwhole")


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304), ("GET", 204)])
async def test_response_without_a_body(method: str, status: int) -> None:
    async def app(exchange: AppExchange) -> None:
        await exchange.respond(status, b"", (b"etag", b'"1"'))

    async with http_site(app) as (_, port):
        client = await Raw.connect(port)
        for _ in range(2):
            await client.send(f"{method} / HTTP/1.1\r\nHost: a\r\n".encode() + AUTHORIZED + b"\r\n")
            answer = await client.reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b'ETag: "1"' in answer
        client.close()


async def upgrade(exchange: AppExchange) -> None:
    assert exchange.head.upgrade == "websocket"
    await exchange.begin(ResponseHead(101, ((b"sec-websocket-accept", b"x"),), None))
    while (part := await exchange.read()) is not None:
        await exchange.write(part.upper())
    await exchange.write(b"bye")
    await exchange.end()


async def test_upgraded_connection_is_raw_in_both_directions() -> None:
    async with http_site(upgrade) as (site, port):
        client = await Raw.connect(port)
        await client.send(
            b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + AUTHORIZED + b"\r\nearly"
        )
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"Upgrade: websocket" in head
        assert await client.reader.readexactly(5) == b"EARLY"
        await client.send(b"late")
        assert await client.reader.readexactly(4) == b"LATE"
        client.writer.write_eof()
        assert await client.rest() == b"bye"
        assert not site.ended


async def test_refused_upgrade_is_an_ordinary_response() -> None:
    async with http_site(echo) as (site, port):
        client = await Raw.connect(port)
        upgraded = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"

        async def no(exchange: AppExchange) -> None:
            await exchange.respond(403, b"no")
            await exchange.body()

        site.app = no
        assert (await client.get("/ws", more=AUTHORIZED + upgraded)).endswith(b"no")
        assert (await client.get("/ws", more=AUTHORIZED + upgraded)).endswith(b"no")
        client.close()


async def test_client_that_leaves_ends_only_its_own_link() -> None:
    async def hang(exchange: AppExchange) -> None:
        if exchange.head.path == "/hang":
            await asyncio.sleep(60)
        await exchange.respond(200, b"ok")

    async with http_site(hang) as (site, port):
        waiting = await Raw.connect(port)
        await waiting.send(b"GET /hang HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        await until(lambda: site.lanes)
        other = await Raw.connect(port)
        assert (await other.get()).endswith(b"ok")
        waiting.close()
        await until(lambda: site.lanes[0].lost)
        assert (await other.get()).endswith(b"ok")
        assert not site.ended
        other.close()


async def test_killed_session_breaks_off_a_response_and_the_next_request_opens_another() -> None:
    async def endless(exchange: AppExchange) -> None:
        if exchange.head.path == "/":
            await exchange.respond(200, b"ok")
            return
        await exchange.begin(ResponseHead(200))
        await exchange.write(b"begun")
        await asyncio.sleep(60)

    async with http_site(endless) as (site, port):
        client = await Raw.connect(port)
        await client.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        await client.reader.readuntil(b"begun\r\n")
        await site.signals.publish(Topic.SESSION_KILL, session_id=str(site.opened[0]))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.reader.readuntil(b"0\r\n\r\n")
        await ended(site, 1)
        assert site.ended == [EndReason.KILLED]
        again = await Raw.connect(port)
        assert (await again.get()).endswith(b"ok")
        assert len(site.opened) == 2
        again.close()


async def test_request_of_a_killed_session_is_told_why() -> None:
    async def hang(exchange: AppExchange) -> None:
        await asyncio.sleep(60)

    async with http_site(hang) as (site, port):
        client = await Raw.connect(port)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        await until(lambda: site.lanes)
        await asyncio.sleep(0.05)
        await site.signals.publish(Topic.SESSION_KILL, session_id=str(site.opened[0]))
        answer = await client.response()
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"this session was killed" in answer
        client.close()


@pytest.mark.parametrize(("code", "status"), [("unavailable", 502), ("invalid", 502), ("timeout", 504)])
async def test_target_without_a_response(code: str, status: int) -> None:
    async def app(exchange: AppExchange) -> None:
        await exchange.fail(code, "the application refused the connection")

    async with http_site(app) as (_, port):
        client = await Raw.connect(port)
        answer = await client.get()
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert b"the application refused the connection" in answer
        client.close()


async def test_application_that_breaks_off_breaks_off_the_response() -> None:
    async def app(exchange: AppExchange) -> None:
        await exchange.begin(ResponseHead(200, (), 100))
        await exchange.write(b"half")
        await exchange.fail("unavailable", "it closed the connection")

    async with http_site(app) as (_, port):
        client = await Raw.connect(port)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        await client.reader.readuntil(b"half")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.reader.readexactly(96)


@pytest.mark.parametrize("size", [3, 7])
async def test_attack_response_of_another_length_than_it_says_ends_the_connection(size: int) -> None:
    async def app(exchange: AppExchange) -> None:
        await exchange.begin(ResponseHead(200, (), 5))
        await exchange.write(b"x" * size)
        await exchange.end()

    async with http_site(app) as (_, port):
        client = await Raw.connect(port)
        await client.send((b"GET / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n") * 2)
        try:
            answer = await client.rest()
        except ConnectionError:
            return
        assert answer.count(b"HTTP/1.1 ") <= 1


async def test_attack_header_that_would_split_the_response_is_not_sent() -> None:
    async def app(exchange: AppExchange) -> None:
        await exchange.respond(200, b"ok", (b"x-bad", b"a\r\nSet-Cookie: evil=1"))

    async with http_site(app) as (_, port):
        client = await Raw.connect(port)
        answer = await client.get()
        assert answer.startswith(b"HTTP/1.1 502")
        assert b"evil" not in answer
        client.close()


async def test_attack_application_cannot_replace_the_cookie_of_the_gateway() -> None:
    async def app(exchange: AppExchange) -> None:
        own = (b" postern =x", b"postern", b"=postern=x", b" = postern-login-x=y", b"\tpostern=x")
        await exchange.respond(200, b"ok", *((b"set-cookie", value) for value in (*own, b"own=1; Path=/")))

    async with http_site(app) as (_, port):
        client = await Raw.connect(port)
        answer = await client.get()
        assert b"own=1" in answer
        assert b"postern" not in answer.lower()
        client.close()


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (Denied("guardrails deny it. Ask an administrator"), 403),
        (Unavailable("the target is away"), 502),
    ],
)
async def test_why_a_session_cannot_be_opened(problem: Any, status: int) -> None:
    async with http_site(echo) as (site, port):
        if status == 403:
            site.denied = problem
        else:
            site.problem = problem
        client = await Raw.connect(port)
        answer = await client.get()
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert problem.message[1:].encode() in answer
        site.denied = site.problem = None
        assert (await client.get()).startswith(b"HTTP/1.1 200")
        client.close()


async def test_person_gets_errors_as_a_page() -> None:
    async with http_site(echo) as (site, port):
        site.denied = Denied("<b>no</b>")
        client = await Raw.connect(port)
        answer = await client.get(more=AUTHORIZED + b"Accept: text/html,*/*\r\nSec-Fetch-Mode: navigate\r\n")
        assert b"Content-Type: text/html" in answer
        assert b"&lt;b&gt;no&lt;/b&gt;" in answer
        client.close()


async def test_requests_that_wait_for_an_opening_session_share_it() -> None:
    async with http_site(echo) as (site, port):
        site.admitting.clear()
        clients = [await Raw.connect(port) for _ in range(3)]
        waiting = [asyncio.ensure_future(client.get()) for client in clients]
        await asyncio.sleep(0.05)
        clients[2].close()
        waiting[2].cancel()
        site.admitting.set()
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in await asyncio.gather(*waiting[:2]))
        assert len(site.opened) == 1
        for client in clients:
            client.close()


async def test_session_that_no_request_waits_for_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_stream, "HALF_CLOSED", 0.0)
    async with http_site(echo) as (site, port):
        site.admitting.clear()
        client = await Raw.connect(port)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        await asyncio.sleep(0.05)
        client.close()
        await asyncio.sleep(0.05)
        site.admitting.set()
        await asyncio.sleep(0.05)
        assert not site.opened


async def test_more_requests_than_links_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "MOST_LINKS", 2)
    monkeypatch.setattr(http_sessions, "MOST_WAITING", 2)
    running = most = 0
    gate = asyncio.Event()

    async def app(exchange: AppExchange) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        await exchange.respond(200, b"ok")

    async with http_site(app) as (_, port):
        clients = [await Raw.connect(port) for _ in range(5)]
        first = asyncio.ensure_future(clients[0].get())
        await until(lambda: running)
        others = [asyncio.ensure_future(client.get()) for client in clients[1:]]
        await until(lambda: any(other.done() for other in others))
        gate.set()
        answers = sorted(answer[:12] for answer in await asyncio.gather(first, *others))
        assert answers == [b"HTTP/1.1 200"] * 4 + [b"HTTP/1.1 503"]
        assert most == 2
        for client in clients:
            client.close()


async def test_stopping_gateway_ends_connections_in_time() -> None:
    async def hang(exchange: AppExchange) -> None:
        await asyncio.sleep(60)

    async with http_site(hang) as (site, port):
        busy, idle = await Raw.connect(port), await Raw.connect(port)
        await busy.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        await idle.get(more=b"")
        await until(lambda: site.lanes)
        await asyncio.sleep(0.05)
        async with asyncio.timeout(5):
            await site.stopped()
            assert (await busy.rest()).startswith(b"HTTP/1.1 503")
            assert await idle.rest() == b""
        assert site.ended == [EndReason.GATEWAY_STOPPED]


async def test_upload_and_download_are_never_held_in_memory() -> None:
    """What the other side does not take is not read: neither side gets far ahead."""
    read = asyncio.Event()

    async def slow(exchange: AppExchange) -> None:
        await read.wait()
        size = 0
        while (part := await exchange.read()) is not None:
            size += len(part)
        await exchange.begin(ResponseHead(200))
        for _ in range(400):
            await exchange.write(b"y" * 65536)
        await exchange.write(b"%d" % size)
        await exchange.end()

    async with http_site(slow) as (site, port):
        client = await Raw.connect(port)
        size = 400 * 65536
        await client.send(f"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n".encode() + AUTHORIZED + b"\r\n")
        sending = asyncio.ensure_future(client.send(b"x" * size))
        await until(lambda: site.lanes)
        await asyncio.sleep(0.3)
        assert not sending.done()
        waiting = site.lanes[0]._current
        assert waiting is not None
        assert waiting.parts.qsize() < 50
        read.set()
        await sending
        received, end = 0, b"%d\r\n0\r\n\r\n" % size
        last = b""
        while not last.endswith(end):
            part = await client.reader.read(1 << 20)
            received, last = received + len(part), (last + part)[-100:]
        assert received > size
        client.close()


class LoginPages:
    """Login pages of a gateway."""

    async def handle(self, head: RequestHead, body: bytes, client: HttpVisitor) -> GatewayResponse | None:
        if head.path == "/.postern/login":
            return GatewayResponse(200, b"form:" + body)
        if head.path.startswith("/.postern/"):
            return None
        return GatewayResponse(303, b"", ((b"location", b"https://gateway.example/"),))


async def test_browser_is_led_to_the_login_page_and_programs_are_not() -> None:
    browser = b"Accept: text/html\r\nSec-Fetch-Mode: navigate\r\n"
    async with http_site(echo, browser_login=LoginPages()) as (site, port):
        client = await Raw.connect(port)
        assert b"Location: https://gateway.example/" in await client.get(more=browser)
        assert (await client.get(more=b"Accept: */*\r\n")).startswith(b"HTTP/1.1 401")
        await client.send(b"POST /.postern/login HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=1")
        assert (await client.response()).endswith(b"form:a=1")
        assert (await client.get("/.postern/other")).startswith(b"HTTP/1.1 404")
        assert not site.opened
        client.close()


async def test_port_that_needs_tls_shows_the_way() -> None:
    async with http_site(echo) as (site, port):
        site.require_tls = True
        client = await Raw.connect(port)
        assert b"Location: https://gate.example/a?b=1\r\n" in await client.get("/a?b=1")
        client = await Raw.connect(port)
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" + AUTHORIZED + b"\r\n")
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"https://" in answer
        assert not site.verified


async def test_local_port_needs_no_credential() -> None:
    async with http_site(echo) as (site, port):
        site.is_local = True
        client = await Raw.connect(port)
        await client.send(b"GET /x HTTP/1.1\r\nHost: localhost:1234\r\nAuthorization: Bearer own\r\n\r\n")
        answer = await client.response()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"authorization: Bearer own" in answer
        assert len(site.opened) == 1
        client.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost:80", 200), ("127.0.0.1:8080", 200), ("[::1]:80", 200), ("box", 200), ("app.localhost", 200)),
        *(("host.docker.internal:1", 200), ("evil.example", 403), ("127.0.0.1.evil.example:80", 403)),
    ],
)
async def test_attack_local_port_is_not_reached_by_names_of_the_internet(host: str, status: int) -> None:
    async with http_site(echo) as (site, port):
        site.is_local = True
        client = await Raw.connect(port)
        await client.send(f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert (await client.response()).startswith(b"HTTP/1.1 %d" % status)
        client.close()


SMUGGLED = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "length and chunked": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "not exactly chunked": b"Transfer-Encoding: xchunked\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "space before the colon": b"Content-Length : 5\r\n",
    "continued line": b"X: a\r\n b\r\n",
    "bare CR": b"X: a\rTransfer-Encoding: chunked\r\n",
    "bare LF": b"X: a\nTransfer-Encoding: chunked\r\n",
    "NUL": b"X: a\0b\r\n",
    "two hosts": b"Host: other\r\n",
    "negative length": b"Content-Length: -1\r\n",
    "plus": b"Content-Length: +5\r\n",
}


@pytest.mark.parametrize("field", SMUGGLED.values(), ids=SMUGGLED)
async def test_attack_ambiguous_request_is_refused_and_ends_the_connection(field: bytes) -> None:
    async with http_site(echo) as (site, port):
        client = await Raw.connect(port)
        hidden = b"GET /hidden HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n"
        await client.send(b"POST /x HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + field + b"\r\n" + b"0\r\n\r\n" + hidden)
        answer = await client.rest()
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer[9:12] in (b"400", b"501")
        assert not site.opened


async def test_attack_body_that_breaks_off_is_not_taken_for_complete() -> None:
    seen: list[Any] = []

    async def app(exchange: AppExchange) -> None:
        seen.append(await exchange.read())
        seen.append(await exchange.read())

    async with http_site(app) as (site, port):
        client = await Raw.connect(port)
        await client.send(
            b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + AUTHORIZED + b"\r\n5\r\nhello\r\nzz\r\n"
        )
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 400")
        await until(lambda: site.lanes[0].lost)
        assert seen == [b"hello"]


@pytest.mark.parametrize("waits", [True, False])
async def test_client_that_closes_its_direction_gets_its_responses(waits: bool) -> None:
    """RFC 9112, 9.6: the end of one direction is not the end of the other."""
    begun = asyncio.Event()

    async def answer(exchange: AppExchange) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        await exchange.respond(200, await exchange.body())

    async with http_site(answer) as (_, port):
        client = await Raw.connect(port)
        heads = b"POST / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"Content-Length: 3\r\n\r\n"
        await client.send(heads + b"one" + heads + b"two")
        if waits:
            await begun.wait()
        client.writer.write_eof()
        answers = await client.rest()
        assert (answers.count(b"HTTP/1.1 200"), b"one" in answers, b"two" in answers) == (2, True, True)


async def test_client_that_closes_its_direction_within_a_request_gets_none() -> None:
    async with http_site(echo) as (_, port):
        head = b"POST / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"Content-Length: 9\r\n\r\n"
        for part in (b"GET / HTTP/1.1\r\nHos", head + b"x"):
            client = await Raw.connect(port)
            await client.send(part)
            client.writer.write_eof()
            assert b"HTTP/1.1 200" not in await client.rest()


async def test_client_of_http2_that_closes_its_direction_is_gone() -> None:
    async with http_site(echo) as (_, port):
        client = await Raw.connect(port)
        await client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        client.writer.write_eof()
        async with asyncio.timeout(30):
            await client.rest()


async def test_client_that_closed_its_direction_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_stream, "HALF_CLOSED", 0.05)

    async def hang(exchange: AppExchange) -> None:
        await asyncio.sleep(60)

    async with http_site(hang) as (site, port):
        client = await Raw.connect(port)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        await until(lambda: site.lanes)
        client.writer.write_eof()
        await until(lambda: site.lanes[0].lost)
