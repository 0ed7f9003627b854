"""Webhook deliveries to a real HTTPS server."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from tests.integrations.sinks.conftest import SECRET, sink
from tests.support.promises import within
from tests.support.receivers import LOOPBACK, http_receiver, senders
from tests.support.world import START

from postern.domain.secret import Secret
from postern.domain.sink import Delivery, SigningSecret, SinkKind
from postern.errors import Denied, NotFound, PosternError, TooMany, Unavailable
from postern.integrations.sinks.senders import Senders, signature

Make = Callable[..., Delivery]


def test_signature_matches_standard_webhooks() -> None:
    """The test vector is the one of its reference libraries."""
    found = signature(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_event_is_posted_and_signed(delivery: Make) -> None:
    one = delivery()
    async with http_receiver() as receiver:
        hook = sink(SinkKind.WEBHOOK, receiver.url, headers={"Authorization": Secret("Bearer x")})
        sender = senders()
        await sender.send(hook, [one], START)
        await sender.send(hook, [one], START)
        await sender.close()
    headers, body = receiver.got[0]
    assert body == one.body.encode()
    assert (headers[":path"], headers["host"]) == ("/events", f"localhost:{receiver.port}")
    assert (headers["content-type"], headers["authorization"]) == ("application/json", "Bearer x")
    stamp = int(headers["webhook-timestamp"])
    assert stamp == int(START.timestamp())
    assert headers["webhook-signature"] == signature(SECRET, headers["webhook-id"], stamp, body)
    assert receiver.got[1][0]["webhook-id"] == headers["webhook-id"] == str(one.event_id)


async def test_replaced_secret_still_signs_until_it_expires(delivery: Make) -> None:
    old = Secret("whsec_" + "QUJD" * 8)
    secrets = (SigningSecret(SECRET), SigningSecret(old, START + timedelta(hours=24)))
    async with http_receiver() as receiver:
        hook = sink(SinkKind.WEBHOOK, receiver.url, secrets=secrets)
        sender = senders()
        for now in (START, START + timedelta(hours=25)):
            await sender.send(hook, [delivery()], now)
        await sender.close()
    headers, body = receiver.got[0]
    stamp = int(headers["webhook-timestamp"])
    both = [signature(one, headers["webhook-id"], stamp, body) for one in (SECRET, old)]
    assert headers["webhook-signature"].split(" ") == both
    assert len(receiver.got[1][0]["webhook-signature"].split(" ")) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Denied),
        (422, Denied),
        (401, Unavailable),
        (404, Unavailable),
        (410, NotFound),
        (429, TooMany),
        (503, Unavailable),
    ],
)
async def test_error_status_raises_the_matching_error(delivery: Make, status: int, error: type[PosternError]) -> None:
    async with http_receiver(status=status) as receiver:
        sender = senders()
        with pytest.raises(error, match=str(status)):
            await sender.send(sink(SinkKind.WEBHOOK, receiver.url), [delivery()], START)
        await sender.close()


async def test_redirect_of_a_webhook_is_not_followed(delivery: Make) -> None:
    async with http_receiver() as inside, http_receiver(status=307) as receiver:
        receiver.headers = f"Location: {inside.url}\r\n"
        sender = senders()
        with pytest.raises(Unavailable, match="redirects are not followed"):
            await sender.send(sink(SinkKind.WEBHOOK, receiver.url), [delivery()], START)
        await sender.close()
    assert inside.got == []


async def test_long_answer_of_a_webhook_is_not_read(delivery: Make) -> None:
    async with http_receiver(status=200, body=b"x" * 5_000_000) as receiver:
        sender = senders()
        began = time.monotonic()
        await sender.send(sink(SinkKind.WEBHOOK, receiver.url), [delivery()], START)
        await sender.close()
    assert time.monotonic() - began < within(10)


async def test_untrusted_certificate_is_rejected(delivery: Make) -> None:
    async with http_receiver() as receiver:
        sender = senders()
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            await sender.send(sink(SinkKind.WEBHOOK, receiver.url, authority=""), [delivery()], START)
        await sender.close()
    assert receiver.got == []


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "fd00:ec2::254", "::ffff:127.0.0.1", "0.0.0.0"],
)
async def test_attack_68_sink_name_with_a_private_address_is_rejected(delivery: Make, address: str) -> None:
    """The name was public when it was saved, and is private now. No address is connected to."""

    async def resolver(_host: str, _port: int) -> list[str]:
        return ["93.184.215.14", address]

    sender = Senders("gateway", resolver=resolver)
    for kind, url in (
        (SinkKind.WEBHOOK, "https://siem.example.com/"),
        (SinkKind.OTLP, "https://siem.example.com/"),
        (SinkKind.SYSLOG, "syslog+tls://siem.example.com:6514"),
    ):
        with pytest.raises(Unavailable, match="POSTERN_SINK_NETWORKS"):
            await sender.send(sink(kind, url), [delivery()], START)
    await sender.close()


async def test_metadata_service_is_rejected_even_in_an_allowed_network(delivery: Make) -> None:
    async def resolver(_host: str, _port: int) -> list[str]:
        return ["169.254.169.254"]

    sender = Senders("gateway", (*LOOPBACK, ip_network("0.0.0.0/0")), resolver=resolver)
    with pytest.raises(Unavailable):
        await sender.send(sink(SinkKind.WEBHOOK, "https://siem.example.com/"), [delivery()], datetime.now(UTC))
    await sender.close()
