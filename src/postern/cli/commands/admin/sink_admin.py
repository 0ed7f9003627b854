from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import IO, Any

import click

from postern.cli.api import client
from postern.cli.nouns import CONNECTION, GROUP, SINK
from postern.cli.printing import as_text, emit, json_option, table
from postern.cli.resource_group import (
    Argument,
    Field,
    ResourceCommands,
    item_argument,
    looking_up,
    new_name,
    resource_group,
)
from postern.cli.row_commands import (
    confirm,
    drop_missing,
    long_paging_options,
    page_of,
    parse_pairs,
    print_result,
    show_page,
    yes_option,
)
from postern.cli.status import report_done, report_note
from postern.client.client import Client
from postern.client.client_resources import PAGE
from postern.client.client_shapes import Row
from postern.domain.event import CHOSEN, EventKind
from postern.domain.sink import CHATS, DeliveryState, SinkKind

_DELIVERIES = [
    ("number", "number"),
    ("event", "event"),
    ("created", "created_at"),
    ("state", "state"),
    ("attempts", "attempts"),
    ("last error", "last_error"),
]
_EVENTS = [str(kind) for kind in CHOSEN]
_LOOK_AGAIN = 0.3  # seconds between requests


def _text(file: IO[str]) -> str:
    return file.read()


def _options(texts: Sequence[str]) -> dict[str, str]:
    return parse_pairs("--option", texts)


def _tags(texts: Sequence[str]) -> dict[str, str]:
    return parse_pairs("--tag", texts)


def _headers(_: bool) -> dict[str, str]:
    return _named_lines("--headers-stdin")


def _keys(_: bool) -> dict[str, str]:
    return _named_lines("--keys-stdin")


def _named_lines(flag: str) -> dict[str, str]:
    """Read lines `name: value` from standard input. Raises UsageError."""
    return dict(_parse_header(flag, line) for line in filter(None, map(str.strip, sys.stdin)))


def _parse_header(flag: str, line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        # The text can be a secret, so the message does not repeat it.
        raise click.UsageError(f"{flag}: write each line as `name: value`")
    return name.strip(), value.strip()


def _prepare(_api: Client, body: Row, key: str | None) -> Row:
    """Raises UsageError for a new sink without events."""
    if key is None and not body.get("events") and body["kind"] not in CHATS:
        raise click.UsageError(f"--event: give at least one, of {', '.join(_EVENTS)}")
    return body


def _show_secret(sink: Row) -> None:
    """Print only the secret on standard output, so that it can be piped."""
    click.echo(sink["secret"])
    report_note(f"{sink['name']} signs its events with this secret, which is shown only once.")


def _show_created(row: Row) -> None:
    if row["secret"]:
        _show_secret(row)
    report_note(f"Created {row['name']}. Test it with: postern admin sinks test {row['name']}")


def _show_changed(changed: Row) -> None:
    if changed["secret"]:
        _show_secret(changed)
    else:
        report_done(f"Changed {changed['name']}.")


sinks = resource_group(
    ResourceCommands(
        noun=SINK,
        help="""Send events to a webhook, a syslog server or an OpenTelemetry collector, and reviews to a chat.
        SINK is a name or id.

        \b
        postern admin sinks events
        postern admin sinks create siem webhook https://siem.example.com/postern --event session.close
        postern admin sinks create logs syslog syslog+tls://logs.example.com:6514 --event audit.entry
        postern admin sinks create mail email smtps://mail.example.com:465 --option to=dba@example.com --option from=…
        postern admin sinks test siem
        postern admin sinks deliveries siem --state given_up
        """,
        columns=[
            ("name", "name"),
            ("kind", "kind"),
            ("status", "status"),
            ("address", "address"),
            ("delivered", "delivered_at"),
            ("failures", "failures"),
            ("last error", "last_error"),
        ],
        arguments=[
            Argument("name"),
            Argument("kind", type=click.Choice([str(kind) for kind in SinkKind])),
            Argument("address", "[ADDRESS]", required=False),
        ],
        options=[
            new_name(),
            Field("--address", "address", "New address.", only="update"),
            Field("--event", "events", "An event to send.", many=True, type=click.Choice(_EVENTS)),
            Field(
                "--authority",
                "authority",
                "PEM file of the receiver's CA; '-' reads standard input.",
                type=click.File(),
                metavar="FILE",
                read=_text,
            ),
            Field(
                "--with-script/--without-script",
                "with_script",
                "Include the script in events of sessions, or leave it out.",
            ),
            Field(
                "--headers-stdin",
                "headers",
                "Read headers to send with each event from standard input, one line `Name: value` each. They "
                "replace the current ones.",
                switch=True,
                reads_stdin=True,
                read=_headers,
            ),
            Field("--option", "options", "A setting of a chat.", many=True, metavar="NAME=VALUE", read=_options),
            Field(
                "--keys-stdin",
                "keys",
                "Read secrets of a chat from standard input, one line `name: value` each. Others stay as they are.",
                switch=True,
                reads_stdin=True,
                read=_keys,
            ),
            Field(
                "--connection",
                "scope.connections",
                "Send only reviews on this connection.",
                many=True,
                completes=CONNECTION,
            ),
            Field(
                "--tag",
                "scope.connection_tags",
                "Also send reviews on connections with all these tags.",
                many=True,
                metavar="NAME=VALUE",
                read=_tags,
            ),
            Field("--group", "scope.groups", "Send only reviews for this group.", many=True, completes=GROUP),
        ],
        defaults={"address": ""},
        prepare=_prepare,
        created=_show_created,
        changed=_show_changed,
        says={
            "list": "List sinks, by name, with the last delivery error of each.",
            "show": "Show a sink, by name or id. Its secret and the values of its headers are never shown.",
            "create": "Create a sink, which receives events from then on. The secret that signs a webhook's events "
            "is shown only once.",
            "update": "Change a sink. Fields that you leave out stay as they are. Waiting events are retried at "
            "once. If you change the address or the CA, give the headers and keys again; a new address "
            "also replaces a webhook's signing secret, which is shown only once.",
            "delete": "Delete a sink with its waiting events.",
        },
        question="Delete {key}? Its waiting events are never sent",
    )
)


@sinks.command()
@click.argument("event", required=False, type=click.Choice([str(kind) for kind in EventKind]))
@json_option
def events(event: str | None, as_json: bool) -> None:
    """List all events and when they happen, or print the JSON Schema of one EVENT."""
    with client() as api:
        schemas = api.collection("events").get("schemas")
    if event is not None:
        click.echo(as_text(schemas[event], indent=2))
        return
    rows = [[kind, schema["description"]] for kind, schema in schemas.items()]
    emit(schemas, as_json, lambda _: table(["event", "when"], rows, "There are no events."))


@sinks.command()
@item_argument(SINK)
@json_option
def pause(key: str, as_json: bool) -> None:
    """Pause a sink: its events wait in the queue."""
    print_result(_change(key, {"paused": True}), as_json, f"{key} is paused: its events wait.")


@sinks.command()
@item_argument(SINK)
@json_option
def resume(key: str, as_json: bool) -> None:
    """Resume a sink: send the waiting events. Also re-enables a sink with the status gone."""
    print_result(_change(key, {"paused": False}), as_json, f"{key} receives events again.")


@sinks.command("rotate-secret")
@item_argument(SINK)
@yes_option
@json_option
def rotate_secret(key: str, yes: bool, as_json: bool) -> None:
    """Replace the signing secret. The new one is shown only once; the old one stays valid for 24 hours."""
    confirm(f"Rotate the secret of {key}? Its receiver needs the new one within 24 hours", yes)
    with client() as api, looking_up(api, SINK, key) as items:
        sink = items.act(key, "secret")
    emit(sink, as_json, lambda answer: click.echo(answer["secret"]))


@sinks.command()
@item_argument(SINK)
@click.option(
    "--wait", type=click.FloatRange(0, 300), default=20.0, show_default=True, help="Seconds to wait for the delivery."
)
@json_option
def test(key: str, wait: float, as_json: bool) -> None:
    """Send a test event, and show the result. Exits with 1 if it was not delivered."""
    with client() as api, looking_up(api, SINK, key) as items:
        number = items.act(key, "test")["number"]
        end = time.monotonic() + wait
        delivery = _delivery(items.below(key, "deliveries"), number)
        while not (delivery["attempts"] or delivery["state"] != DeliveryState.WAITING) and time.monotonic() < end:
            time.sleep(_LOOK_AGAIN)
            delivery = _delivery(items.below(key, "deliveries"), number)
    if delivery["state"] == DeliveryState.DELIVERED:
        print_result(delivery, as_json, f"{key} accepted the test event.")
        return
    why = (
        delivery["last_error"]
        or f"it is still waiting after {wait:g} seconds, perhaps behind events that cannot be delivered"
    )
    print_result(delivery, as_json, f"{key} did not accept the test event: {why}")
    sys.exit(1)


def _delivery(deliveries: Any, number: int) -> Row:
    """Return the delivery of the test, which is among the newest."""
    rows = deliveries.page(PAGE)["data"]
    delivery: Row | None = next((row for row in rows if row["number"] == number), None)
    return delivery or {"number": number, "attempts": 0, "state": str(DeliveryState.WAITING), "last_error": ""}


@sinks.command()
@item_argument(SINK)
@click.option(
    "--state", type=click.Choice([str(state) for state in DeliveryState]), help="Show only deliveries in this state."
)
@long_paging_options
def deliveries(
    key: str, state: str | None, as_json: bool, limit: int, offset: int, cursor: str | None, every: bool
) -> None:
    """List deliveries to a sink, newest first, with their errors."""
    with client() as api, looking_up(api, SINK, key) as items:
        listed = items.below(key, "deliveries")
        page = page_of(listed, limit=limit, offset=offset, every=every, **drop_missing(state=state, cursor=cursor))
    show_page(page, _DELIVERIES, as_json, "No delivery matches.")


@sinks.command()
@item_argument(SINK)
@click.option("--number", type=int, help="Send only this delivery, in any state.  [default: all that were given up]")
@json_option
def redeliver(key: str, number: int | None, as_json: bool) -> None:
    """Send again the deliveries that were given up, with the same ids."""
    with client() as api, looking_up(api, SINK, key) as items:
        done = items.act(key, "redeliver", body=drop_missing(number=number))
    print_result(done, as_json, f"{done['waiting']} deliveries of {key} are queued again.")


def _change(key: str, body: Row) -> Row:
    with client() as api, looking_up(api, SINK, key) as items:
        return items.update(key, body)
