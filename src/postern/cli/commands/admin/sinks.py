from __future__ import annotations

import sys
import time
from typing import IO, Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import as_text, emit, json_option, local_time, table
from postern.cli.rows import (
    confirm,
    given,
    long_paging_options,
    page_of,
    paging_options,
    pairs,
    show_page,
    show_row,
    told,
    yes_option,
)
from postern.cli.status import report_done, report_note
from postern.client.resources import PAGE
from postern.client.shapes import Row
from postern.domain.event import CHOSEN, EventKind
from postern.domain.sink import CHATS, DeliveryState, SinkKind

_COLUMNS = [
    ("name", "name"),
    ("kind", "kind"),
    ("status", "status"),
    ("address", "address"),
    ("delivered", "delivered_at"),
    ("failures", "failures"),
    ("last error", "last_error"),
]
_DELIVERIES = [
    ("number", "number"),
    ("event", "event"),
    ("created", "created_at"),
    ("state", "state"),
    ("attempts", "attempts"),
    ("last error", "last_error"),
]
_EVENTS = [str(kind) for kind in CHOSEN]
_PATH = "sinks"
_SHAPED = frozenset({"keys_stdin", "connections", "tags", "groups", "options"})
_LOOK_AGAIN = 0.3  # seconds

_event = click.option("--event", "events", multiple=True, type=click.Choice(_EVENTS), help="Repeatable; replaces all.")
_authority = click.option(
    "--authority", type=click.File(), metavar="FILE", help="PEM of the receiver's CA; '-' for standard input."
)
_script = click.option("--with-script/--without-script", default=None, help="Whether sessions come with their script.")
_options = click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="What a chat needs besides; they replace all."
)
_keys = click.option(
    "--keys-stdin", is_flag=True, help="Read a chat's secrets, a line `name: value` each; others stay as they are."
)
_scope_connections = click.option(
    "--connection", "connections", multiple=True, help="Only reviews on this connection. Repeatable."
)
_scope_tags = click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Or on one with all these tags.")
_scope_groups = click.option("--group", "groups", multiple=True, help="Only reviews for this group. Repeatable.")
_headers = click.option(
    "--headers-stdin", is_flag=True, help="Read headers to send along, a line `Name: value` each; they replace all."
)


@click.group()
def sinks() -> None:
    """Send what happens to a webhook, a syslog server or an OpenTelemetry collector, and reviews to a chat. SINK is a
    name or id.

    \b
    postern admin sinks events
    postern admin sinks create siem webhook https://siem.example.com/postern --event session.close --event audit.entry
    postern admin sinks create logs syslog syslog+tls://logs.example.com:6514 --event audit.entry
    postern admin sinks create mail email smtps://mail.example.com:465 --option to=dba@example.com --option from=…
    postern admin sinks test siem
    postern admin sinks deliveries siem --state given_up
    """


@sinks.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List sinks, by name, with what keeps them from their events."""
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no sinks yet: postern admin sinks create --help")


@sinks.command()
@click.argument("event", required=False, type=click.Choice([str(kind) for kind in EventKind]))
@json_option
def events(event: str | None, as_json: bool) -> None:
    """List the events that there are and when they happen, or print the JSON Schema of one EVENT."""
    with client() as api:
        schemas = api.collection("events").get("schemas")
    if event is not None:
        click.echo(as_text(schemas[event], indent=2))
        return
    rows = [[kind, schema["description"]] for kind, schema in schemas.items()]
    emit(schemas, as_json, lambda _: table(["event", "when"], rows, "There are no events."))


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@json_option
def show(sink: str, as_json: bool) -> None:
    """Show one sink, never its secret nor its headers' values."""
    with client() as api:
        show_row(api.collection(_PATH).get(sink), as_json)


@sinks.command()
@click.argument("name")
@click.argument("kind", type=click.Choice([str(kind) for kind in SinkKind]))
@click.argument("address", default="")
@_event
@_authority
@_script
@_headers
@_options
@_keys
@_scope_connections
@_scope_tags
@_scope_groups
@json_option
def create(authority: IO[str] | None, headers_stdin: bool, as_json: bool, **more: Any) -> None:
    """Make a sink; events from now on go there. What signs a webhook's events is printed this once."""
    body = _body(authority, headers_stdin, **more)
    if not more["events"] and more["kind"] not in CHATS:
        raise click.UsageError(f"--event: needs one at least, of {', '.join(_EVENTS)}")
    with client() as api:
        made = api.collection(_PATH).create(body)
    emit(made, as_json, _show_made)


def _show_secret(made: Row) -> None:
    """Alone on standard output, to be piped."""
    click.echo(made["secret"])
    report_note(f"{made['name']} signs its events with this secret, which is shown this once.")


def _show_made(made: Row) -> None:
    if made["secret"]:
        _show_secret(made)
    report_note(f"Made {made['name']}. See whether it gets through: postern admin sinks test {made['name']}")


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@click.option("--name", help="The new name.")
@click.option("--address", help="Where it is from now on.")
@_event
@_authority
@_script
@_headers
@_options
@_keys
@_scope_connections
@_scope_tags
@_scope_groups
@json_option
def update(sink: str, authority: IO[str] | None, headers_stdin: bool, as_json: bool, **more: Any) -> None:
    """Change a sink; what is left out stays as it is. What waits is tried again at once. Another address or authority
    needs headers and keys again; with its address a webhook's signing secret changes, and is printed this once."""
    body = _body(authority, headers_stdin, **more)
    if not body:
        raise click.UsageError("nothing to change; see --help")
    changed = _change(sink, body)
    emit(changed, as_json, _show_secret if changed["secret"] else lambda _: report_done(f"Changed {sink}."))


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@json_option
def pause(sink: str, as_json: bool) -> None:
    """Keep events back; they wait."""
    told(_change(sink, {"paused": True}), as_json, f"{sink} is paused: its events wait.")


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@json_option
def resume(sink: str, as_json: bool) -> None:
    """Send what waits, and go on; also for a sink that is gone."""
    told(_change(sink, {"paused": False}), as_json, f"{sink} is sent events again.")


@sinks.command("rotate-secret")
@click.argument("sink", shell_complete=completion.sinks)
@yes_option
@json_option
def rotate_secret(sink: str, yes: bool, as_json: bool) -> None:
    """Make another signing secret, printed this once; the one before it signs, too, for 24 hours."""
    confirm(f"Rotate the secret of {sink}? Its receiver needs the new one within 24 hours", yes)
    with client() as api:
        made = api.collection(_PATH).act(sink, "secret")
    emit(made, as_json, lambda one: click.echo(one["secret"]))


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@click.option("--wait", type=click.FloatRange(0, 300), default=20.0, show_default=True, help="Seconds to wait for it.")
@json_option
def test(sink: str, wait: float, as_json: bool) -> None:
    """Send an event that says that it is a test, and tell what became of it. Fails when it was not taken."""
    with client() as api:
        number = api.collection(_PATH).act(sink, "test")["number"]
        end = time.monotonic() + wait
        found = _delivery(api.collection(_PATH, sink, "deliveries"), number)
        while not (found["attempts"] or found["state"] != DeliveryState.WAITING) and time.monotonic() < end:
            time.sleep(_LOOK_AGAIN)
            found = _delivery(api.collection(_PATH, sink, "deliveries"), number)
    if found["state"] == DeliveryState.DELIVERED:
        told(found, as_json, f"{sink} took it.")
        return
    why = found["last_error"] or f"it still waits after {wait:g} seconds, perhaps behind others that do not get through"
    told(found, as_json, f"{sink} did not take it: {why}")
    sys.exit(1)


def _delivery(deliveries: Any, number: int) -> Row:
    """Among the newest: it has only just been made."""
    rows = deliveries.page(PAGE)["data"]
    found: Row | None = next((row for row in rows if row["number"] == number), None)
    return found or {"number": number, "attempts": 0, "state": str(DeliveryState.WAITING), "last_error": ""}


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@click.option("--state", type=click.Choice([str(state) for state in DeliveryState]), help="Only these.")
@long_paging_options
def deliveries(
    sink: str, state: str | None, as_json: bool, limit: int, offset: int, cursor: str | None, every: bool
) -> None:
    """List what is or was on its way to a sink, newest first, and why it did not get through."""
    with client() as api:
        listed = api.collection(_PATH, sink, "deliveries")
        page = page_of(listed, limit=limit, offset=offset, every=every, **given(state=state, cursor=cursor))
    for row in page["data"] if not as_json else ():
        row["created_at"] = local_time(row["created_at"])
    show_page(page, _DELIVERIES, as_json, "There is nothing.")


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@click.option("--number", type=int, help="One delivery, whatever became of it; all that were given up when missing.")
@json_option
def redeliver(sink: str, number: int | None, as_json: bool) -> None:
    """Send again what was given up; the receiver sees the same ids."""
    with client() as api:
        done = api.collection(_PATH).act(sink, "redeliver", body=given(number=number))
    told(done, as_json, f"{done['waiting']} of {sink} wait to be sent again.")


@sinks.command()
@click.argument("sink", shell_complete=completion.sinks)
@yes_option
@json_option
def delete(sink: str, yes: bool, as_json: bool) -> None:
    """Delete a sink with all that waits for it."""
    confirm(f"Delete {sink}? What waits for it is never sent", yes)
    with client() as api:
        api.collection(_PATH).delete(sink)
    told({"deleted": sink}, as_json, f"Deleted {sink}.")


def _change(sink: str, body: Row) -> Row:
    with client() as api:
        changed: Row = api.collection(_PATH).act(sink, body=body, method="PATCH")
    return changed


def _body(authority: IO[str] | None, headers_stdin: bool, **more: Any) -> Row:
    readers = [headers_stdin, more["keys_stdin"], authority is not None and authority.name == "<stdin>"]
    if sum(readers) > 1:
        raise click.UsageError("only one of --headers-stdin, --keys-stdin and --authority - can read standard input")
    body = given(authority=authority.read() if authority is not None else None, **_plain(more))
    if headers_stdin or more["keys_stdin"]:
        flag = "--headers-stdin" if headers_stdin else "--keys-stdin"
        lines = [_line(flag, line) for line in filter(None, map(str.strip, sys.stdin))]
        body["headers" if headers_stdin else "keys"] = dict(lines)
    return body


def _plain(more: Row) -> Row:
    """Options and the scope as the API has them."""
    scope = given(connections=more["connections"], groups=more["groups"])
    if more["tags"]:
        scope["connection_tags"] = pairs("--tag", more["tags"])
    others = {name: value for name, value in more.items() if name not in _SHAPED}
    options = pairs("--option", more["options"]) if more["options"] else None
    return others | {"options": options, "scope": scope or None}


def _line(flag: str, line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        # The text may be a secret: it is not repeated.
        raise click.UsageError(f"{flag}: needs lines `name: value`")
    return name.strip(), value.strip()
