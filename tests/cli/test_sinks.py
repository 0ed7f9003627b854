"""`postern admin sinks` against the real API, with a receiver that is really sent to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.support.receivers import HttpReceiver, issued, senders, server_context
from tests.support.served import Served

from postern.domain.event import EventKind
from postern.services.notifications.event_delivery import EventDelivery

pytestmark = pytest.mark.ci

EVENTS = ("--event", "session.close", "--event", "audit.entry")


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    return gate


@pytest.fixture
def authority(tmp_path: Path) -> str:
    file = tmp_path / "ca.pem"
    file.write_text(issued().authority)
    return str(file)


async def _send(gate: Served) -> None:
    """One round of what sends in a gateway's process."""
    stores = gate.world.stores
    await gate.services.postprocessing.once()
    sending = EventDelivery(stores.deliveries, stores.leases, senders(), gate.services.now)
    await sending.once()
    await sending.wait_until_idle()
    await sending.stop()


def test_a_webhooks_secret_is_shown_once_and_alone(root: Served) -> None:
    made = root.ok("admin", "sinks", "create", "siem", "webhook", "https://siem.example.com/x", *EVENTS)
    secret = made.stdout.strip()
    assert secret.startswith("whsec_")
    assert "shown only once" in made.stderr
    for command in (("list",), ("show", "siem")):
        assert secret not in root.ok("admin", "sinks", *command, "--json").output
    shown = root.json("admin", "sinks", "show", "siem")
    assert (shown["kind"], shown["events"]) == ("webhook", ["session.close", "audit.entry"])
    other = root.ok("admin", "sinks", "rotate-secret", "siem", "--yes").stdout.strip()
    assert other.startswith("whsec_")
    assert other != secret
    assert root.cli("admin", "sinks", "rotate-secret", "siem", stdin="n\n").exit_code == 1
    moved = root.ok("admin", "sinks", "update", "siem", "--address", "https://other.example.com/x")
    assert moved.stdout.strip().startswith("whsec_")
    assert moved.stdout.strip() != other
    assert "shown only once" in moved.stderr
    assert root.ok("admin", "sinks", "update", "siem", "--with-script").stdout == "Changed siem.\n"


def test_events_are_listed_with_their_schemas(root: Served) -> None:
    listed = root.ok("admin", "sinks", "events").stdout
    assert "review.created\ta request needs an approval" in listed
    assert set(root.json("admin", "sinks", "events")) == set(EventKind)
    schema = json.loads(root.ok("admin", "sinks", "events", "guardrail.violation").stdout)
    assert schema["$id"] == "urn:postern:event:guardrail.violation"
    assert "rule" in schema["properties"]["data"]["required"]
    assert root.cli("admin", "sinks", "events", "session.ended").exit_code == 2


def test_paused_sink_keeps_its_events_and_takes_no_test(root: Served) -> None:
    made = root.ok("admin", "sinks", "create", "logs", "syslog", "syslog+tls://logs.example.com:6514", *EVENTS)
    assert made.stdout == ""
    root.ok("admin", "sinks", "pause", "logs")
    assert root.json("admin", "sinks", "show", "logs")["status"] == "paused"
    refused = root.cli("admin", "sinks", "test", "logs")
    assert (refused.exit_code, "paused" in refused.stderr) == (1, True)
    root.ok("admin", "sinks", "resume", "logs")
    assert root.ok("admin", "sinks", "list").stdout.split("\t")[:3] == ["logs", "syslog", "active"]


def test_headers_come_by_standard_input_and_are_never_shown(root: Served) -> None:
    address = ("siem", "webhook", "https://siem.example.com/x")
    made = root.ok("admin", "sinks", "create", *address, *EVENTS, "--headers-stdin", stdin="X-Key: a secret\n\nY:b:c\n")
    shown = root.ok("admin", "sinks", "show", "siem", "--json")
    assert json.loads(shown.stdout)["header_names"] == ["X-Key", "Y"]
    assert "a secret" not in made.output + shown.output
    wrong = root.cli("admin", "sinks", "update", "siem", "--headers-stdin", stdin="another secret\n")
    assert (wrong.exit_code, "another secret" in wrong.output) == (2, False)
    refused = root.cli("admin", "sinks", "update", "siem", "--address", "https://other.example.com/x")
    assert (refused.exit_code != 0, "give them again: X-Key, Y" in refused.stderr) == (True, True)


@pytest.mark.parametrize(
    "wrong",
    [
        ("siem", "webhook", "https://siem.example.com/x"),
        ("siem", "pigeon", "https://siem.example.com/x", *EVENTS),
        ("siem", "webhook", "https://siem.example.com/x", "--event", "sink.test"),
    ],
)
def test_what_cannot_be_a_sink_is_a_usage_error(root: Served, wrong: tuple[str, ...]) -> None:
    assert root.cli("admin", "sinks", "create", *wrong).exit_code == 2


def test_a_test_tells_what_became_of_it_and_what_was_given_up_is_sent_again(root: Served, authority: str) -> None:
    receiver = HttpReceiver(status=204, statuses=[204, 500])
    server = root.run(asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=server_context()))
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        made = ("siem", "webhook", receiver.url, "--event", "session.close", "--authority", authority)
        root.ok("admin", "sinks", "create", *made)
        assert root.json("admin", "sinks", "deliveries", "siem")["data"] == []
        late = root.cli("admin", "sinks", "test", "siem", "--wait", "0")
        assert (late.exit_code, "still waiting" in late.stdout) == (1, True)
        root.run(_send(root))
        (first,) = root.json("admin", "sinks", "deliveries", "siem", "--state", "delivered")["data"]
        root.cli("admin", "sinks", "test", "siem", "--wait", "0")
        root.run(_send(root))
        table = root.ok("admin", "sinks", "deliveries", "siem", "--state", "waiting").stdout
        assert "localhost answered 500" in table
        assert "localhost answered 500" in root.ok("admin", "sinks", "list").stdout
        root.ok("admin", "sinks", "resume", "siem")  # tries again at once
        root.run(_send(root))
        assert len(root.json("admin", "sinks", "deliveries", "siem", "--state", "delivered")["data"]) == 2
        assert root.ok("admin", "sinks", "redeliver", "siem").stdout.startswith("0 deliveries of siem")
        root.ok("admin", "sinks", "redeliver", "siem", "--number", str(first["number"]))
        assert root.cli("admin", "sinks", "redeliver", "siem", "--number", str(first["number"])).exit_code == 5
        root.run(_send(root))
        ids = [headers["webhook-id"] for headers, _ in receiver.got]
        assert ids[-1] == ids[0] == first["event_id"]
    finally:
        server.close()
