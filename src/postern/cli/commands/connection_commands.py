from __future__ import annotations

import shlex
import time
from typing import IO, Any

import click

from postern.cli import access_switches, completion, secret_values, unserved
from postern.cli.api import client
from postern.cli.connection_files import (
    MODES,
    agent_id,
    report_unmasked,
    settings,
    warn_of,
    with_agent,
    without,
)
from postern.cli.json_files import one_object
from postern.cli.nouns import AGENT, CONNECTION, MASKING_RULE, RESOURCE
from postern.cli.printing import emit, fields, json_option, local_time, span
from postern.cli.printing import table as show_table
from postern.cli.resource_group import (
    Field,
    ResourceCommands,
    item_argument,
    looking_up,
    resource_group,
    warn_of_manager,
)
from postern.cli.row_commands import confirm, drop_missing, parse_pairs, print_result, tag_option, yes_option
from postern.cli.status import Status, report, report_done
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.targets.connection import SPOKEN, SUBTYPES
from postern.domain.targets.connection_use import ConnectionUse
from postern.domain.targets.target_keys import ALIASES, canonical_subtype, check_target_keys
from postern.errors import Denied
from postern.protocols.registry import DEFAULT_PROTOCOL, PROTOCOLS


def _narrow(api: Client, filters: Row) -> Row:
    agent = filters.pop("agent", None)
    return filters if agent is None else {**filters, "agent_id": agent_id(api, agent)}


def _test_in_short(row: Row) -> str:
    test = row.get("last_test")
    return "untested" if test is None else f"{test['status']} {local_time(test['tested_at'])}"


def _address(row: Row) -> str | None:
    """Return the target's host and port, or None if this user cannot see them or there are none."""
    target = row.get("target") or {}
    return f"{target['HOST']}:{target['PORT']}" if "HOST" in target else None


connections = resource_group(
    ResourceCommands(
        noun=CONNECTION,
        help=f"""List and manage connections.

        \b
        postern connections
        postern connections list --tag env=prod --status online
        postern connections show shop-demo
        postern connections create orders --subtype {DEFAULT_PROTOCOL} \\
            --env HOST=db.example.com --env PORT=5432 --env USER=app --env PASS=- --env DB=orders
        postern connections create web-1 --subtype ssh --env HOST=web-1.example.com --env USER=app --env PASS=-
        postern connections update orders --set access_max_duration=3600 --tag env=prod
        """,
        columns=[
            ("name", "name"),
            ("type", lambda row: row["subtype"] or row["type"]),
            ("agent status", "status"),
            ("tags", "connection_tags"),
            ("agent", "agent_name"),
            ("last test", _test_in_short),
            ("target", _address),
        ],
        verbs=("list", "delete"),
        aliases={"get": "show", "add": "create"},
        filters=[
            Field(
                "--search",
                "search",
                "Show only connections whose name, description, type, subtype or resource contains this text.",
            ),
            Field("--type", "type", "Show only this type.", type=click.Choice(["database", "application", "custom"])),
            Field("--subtype", "subtype", f"Show only this subtype, such as {DEFAULT_PROTOCOL}."),
            Field(
                "--status",
                "status",
                "Show only connections whose agent is online, or offline.",
                type=click.Choice(["online", "offline"]),
            ),
            Field(
                "--tags --tag",
                "tag_selector",
                "Show only connections with this tag: key=value, key!=value, key, !key.",
                many=True,
                completes=completion.tags,
                read=",".join,
            ),
            Field("--resource", "resource_name", "Show only connections of this resource.", completes=RESOURCE),
            Field("--agent", "agent", "Show only connections of this agent.", completes=AGENT),
        ],
        narrow=_narrow,
        prints_array=True,
        says={"list": "List connections.", "delete": "Delete a connection. Its recorded sessions stay."},
        question="Delete connection {key}?",
    )
)


@connections.command()
@item_argument(CONNECTION)
@json_option
def show(key: str, as_json: bool) -> None:
    """Show a connection, by name or id.

    `status` is online while its agent is connected. `target_status` is the result of the last test of the target
    (`postern connections test`). Administrators also see `target`: host, port, user and database. Passwords and keys
    are never shown.
    """
    with client() as api, looking_up(api, CONNECTION, key) as items:
        row = items.get(key)
        rules = [] if as_json else _masking_rules(api, row["id"])
    emit(
        row,
        as_json,
        lambda row: fields(
            [*((name, _render_field(name, value)) for name, value in row.items()), ("masking_rules", rules)]
        ),
    )


@connections.command()
@click.option(
    "--search", help="Show only connections whose name, description, type, subtype or resource has this text."
)
@json_option
def uses(search: str | None, as_json: bool) -> None:
    """List what you can do with each connection, and when you last did.

    `review` means that reviewers must approve first. `postern access CONNECTION` explains one connection.
    """
    query = drop_missing(search=search)
    with client() as api:
        rows = api.collection(*CONNECTION.path).everything(expand="access,activity", **query)["data"]
    emit(rows, as_json, _show_uses)


def _show_uses(rows: list[Row]) -> None:
    titles = [str(use) for use in ConnectionUse]
    cells = [
        [
            row["name"],
            *(_use_in_short(row["access"]["uses"][use]) for use in titles),
            local_time(row["activity"]["own"]["last_used"]),
            row["activity"]["own"]["open_sessions"],
            row["description"],
        ]
        for row in rows
    ]
    show_table(
        ["name", *titles, "last used", "open sessions", "description"], cells, "There are no connections for you."
    )


def _use_in_short(access: Row) -> str:
    if not access["allowed"]:
        return "no"
    return "review" if access["needs_review"] else "yes"


def _masking_rules(api: Client, connection_id: str) -> list[str]:
    """Return the names of the rules that apply, as far as the caller is allowed to see them."""
    try:
        rules = api.collection(*MASKING_RULE.path).everything()["data"]
    except Denied:
        return []
    return [rule["name"] for rule in rules if connection_id in rule["connection_ids"]]


def _render_field(key: str, value: Any) -> Any:
    """Return a field as text. A secret shows only its keys: values are null, or references."""
    if key == "secret" and isinstance(value, dict):
        return sorted(value)
    if key == "last_test" and isinstance(value, dict):
        reason = f": {value['reason']}" if value["reason"] else ""
        return f"{value['status']} at {local_time(value['tested_at'])}{reason}"
    return value


@connections.command()
@click.argument("name", shell_complete=completion.connections)
@json_option
def test(name: str, as_json: bool) -> None:
    """Test a connection: log in to its target, and print the error if that fails."""
    begun = time.monotonic()
    with client() as api, looking_up(api, CONNECTION, name) as items:
        result = items.act(name, "test", method="GET")
    print_result(result, as_json, f"{name} works: the target answered in {span(time.monotonic() - begun)}.")


@connections.command()
@click.argument("name", shell_complete=completion.connections)
@click.option("--databases", is_flag=True, help="List databases instead of tables.")
@click.option("--database", help="Show this database.  [default: the connection's own]")
@click.option("--schema", "schema_name", help="Show only this schema.")
@click.option("--table", help="Show the columns of this table.")
@click.option("--columns", is_flag=True, help="Show the columns of all tables.")
@json_option
def schema(
    name: str,
    databases: bool,
    database: str | None,
    schema_name: str | None,
    table: str | None,
    columns: bool,
    as_json: bool,
) -> None:
    """Show the tables of a connection's database, or their columns.

    \b
    postern connections schema shop-demo
    postern connections schema shop-demo --databases
    postern connections schema shop-demo --table orders
    postern connections schema shop-demo --columns
    """
    if databases and (database or schema_name or table):
        raise click.UsageError("--databases cannot be combined with --database, --schema or --table")
    if columns and (databases or schema_name or table):
        raise click.UsageError("--columns cannot be combined with --databases, --schema or --table")
    what = "databases" if databases else "schema" if columns else "tables" if table is None else "columns"
    query = drop_missing(table=table, database=database, schema=schema_name)
    with client() as api, looking_up(api, CONNECTION, name) as items:
        schema = items.act(name, what, method="GET", **query)
    emit(schema, as_json, _show_schema)
    if schema["truncated"]:
        hint = "use --table for the columns of a table" if columns else "narrow it with --schema"
        report(Status.INFO, f"the list is incomplete; {hint}")


def _show_schema(answer: Row) -> None:
    if "schemas" in answer and "databases" in answer:
        rows = [
            [f"{schema['name']}.{table['name']}", table["kind"], column["name"], column["type"], column["nullable"]]
            for schema in answer["schemas"]
            for table in schema["tables"]
            for column in table["columns"]
        ]
        show_table(["table", "kind", "column", "type", "nullable"], rows, "This user cannot see any tables.")
    elif "databases" in answer:
        rows = [[database] for database in answer["databases"]]
        show_table(["database"], rows, "This user cannot connect to any database.")
    elif "schemas" in answer:
        rows = [[schema["name"], table] for schema in answer["schemas"] for table in schema["tables"]]
        show_table(["schema", "table"], rows, "This user cannot see any tables.")
    else:
        rows = [[column["name"], column["type"], column["nullable"]] for column in answer["columns"]]
        show_table(["column", "type", "nullable"], rows, "This table has no columns.")


@connections.command()
@click.argument("name", required=False)
@click.option("--type", "kind", help="database, application or custom.  [default: that of the subtype]")
@click.option(
    "--subtype",
    default=DEFAULT_PROTOCOL,
    show_default=True,
    help=f"The target's protocol: {', '.join(name for name in PROTOCOLS if name in SPOKEN)}; "
    f"{' and '.join(ALIASES)} are accepted, too.",
)
@click.option("--command", help="Program and arguments that the agent runs; sets the type to custom.")
@click.option("--description", default="", help="What it is for, for its users.")
@secret_values.options
@tag_option("A tag. Repeatable.")
@click.option(
    "--redact",
    "redact_types",
    multiple=True,
    metavar="TYPE",
    help="Mask this information type in output. Repeatable.",
    shell_complete=completion.types,
)
@click.option(
    "--guardrail",
    "guardrails",
    multiple=True,
    metavar="ID",
    help="A guardrail to apply. Repeatable.",
    shell_complete=completion.guardrail_ids,
)
@click.option(
    "--agent",
    shell_complete=completion.agents,
    help="Agent that reaches the target.  [default: the built-in agent, or the only one]",
)
@access_switches.options
@click.option(
    "-f",
    "--file",
    "file",
    type=click.File(),
    help="Read the whole connection as JSON from this file ('-' for standard input).",
)
@json_option
def create(name: str | None, file: IO[str] | None, agent: str | None, as_json: bool, **options: Any) -> None:
    """Create a connection.

    Values of --env are stored encrypted, and users who connect never see them. VALUE is the value itself, or one of:

    \b
    --env PASS                          from the environment variable PASS
    --env PASS=-                        typed at a prompt, or a line of standard input
    --env PASS=file://PATH              from a file
    --env PASS=base64://…               decoded
    --env PASS=_vaultkv2:kv/shop:pass   a reference: the agent asks the provider when a session opens

    \b
    Keys of databases: HOST and USER, and optionally PORT, DB, PASS, SSLMODE, SSLROOTCERT
    Keys of ssh: HOST and USER, optionally PORT, and one of PASS, PRIVATE_KEY, SSH_AUTH_SOCK
    Keys of TCP services: HOST and PORT, and optionally SSLMODE, SSLROOTCERT

    Other keys are rejected. A command takes any key, as an environment variable. --secret-file writes the secret to a
    file for the command, and the variable KEY holds the file's path; it accepts references, - and base64://, too.
    """
    if (name is None) == (file is None):
        raise click.UsageError("give a NAME with options, or --file")
    with client() as api:
        body = (
            with_agent(api, one_object("--file", file.read()))
            if file
            else _body(str(name), agent_id(api, agent), options)
        )
        created = api.connections.create(body)
        unserved.warn(api, created)
    emit(created, as_json, lambda row: report_done(f"Created {row['name']} ({row['id']})."))
    warn_of(created)


def _body(name: str, agent: str, options: Row) -> Row:
    secret = secret_values.read_secrets(options["variables"], options["files"])
    command = _words(options["command"] or "")
    subtype = "" if command else canonical_subtype(options["subtype"])
    check_target_keys(subtype, secret)
    return {
        "name": name,
        "type": "custom" if command else options["kind"] or _type_of(subtype),
        "subtype": subtype,
        "command": command,
        "agent_id": agent,
        **MODES,
        **access_switches.take_switches(options),
        "secret": secret,
        "connection_tags": parse_pairs("--tag", options["tags"]),
        "description": options["description"],
        "redact_types": list(options["redact_types"]),
        "guardrail_rules": list(options["guardrails"]),
    }


def _type_of(subtype: str) -> str:
    """Return the type; the gateway rejects an unknown subtype."""
    return next((kind.value for kind, subtypes in SUBTYPES.items() if subtype in subtypes), "database")


def _words(command: str) -> list[str]:
    """Split as a shell would; no shell is involved."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--command: {error}") from None


@connections.command()
@click.argument("name", shell_complete=completion.connections)
@click.option(
    "--set", "values", multiple=True, metavar="FIELD=VALUE", help="Set a field, named as in the API. Repeatable."
)
@click.option("--unset", "unset", multiple=True, metavar="FIELD", help="Clear a field. Repeatable.")
@secret_values.options
@click.option("--unset-env", "dropped", multiple=True, metavar="KEY", help="Remove a secret. Repeatable.")
@tag_option("Set a tag. Repeatable.")
@click.option("--untag", "untagged", multiple=True, metavar="KEY", help="Remove a tag. Repeatable.")
@click.option("--agent", shell_complete=completion.agents, help="Agent that reaches the target.")
@access_switches.options
@json_option
def update(
    name: str,
    values: tuple[str, ...],
    unset: tuple[str, ...],
    variables: tuple[str, ...],
    files: tuple[str, ...],
    dropped: tuple[str, ...],
    tags: tuple[str, ...],
    untagged: tuple[str, ...],
    agent: str | None,
    as_json: bool,
    **switches: bool | None,
) -> None:
    """Change fields of a connection. Options that you leave out stay as they are.

    --set takes the value of the API's field: a number, true or false, text or JSON. A list can be given as a,b. --env
    and --secret-file are those of `postern connections create`. Changes apply to running sessions; a session that is no
    longer allowed ends.
    """
    body = {**settings(values, unset), **access_switches.take_switches(switches)}
    secrets = secret_values.read_secrets(variables, files)
    labels = parse_pairs("--tag", tags)
    if not (body or secrets or dropped or labels or untagged or agent):
        raise click.UsageError("nothing to change: give --set, --unset, --env, --tag or --agent")
    with client() as api, looking_up(api, CONNECTION, name):
        if secrets or dropped or labels or untagged:
            current = api.connections.get(name)
            if labels or untagged:
                body["connection_tags"] = without({**(current["connection_tags"] or {}), **labels}, untagged, "tag")
            if secrets or dropped:
                merged = secret_values.merge_secrets(current["secret"] or {}, secrets)
                body["secret"] = without(merged, secret_values.keys_of(merged, dropped), "secret")
        body = with_agent(api, body | ({} if agent is None else {"agent": agent}))
        changed = api.connections.update(name, body)
        if not body.keys().isdisjoint(("agent_id", "command")):
            unserved.warn(api, changed)
    emit(changed, as_json, lambda row: report_done(f"Changed {row['name']}: {', '.join(sorted(body))}."))
    report_unmasked(changed, body)
    warn_of(changed)
    warn_of_manager(changed)


@connections.command("host-keys")
@click.argument("name", shell_complete=completion.connections)
@click.option("--forget", is_flag=True, help="Forget the pinned key, so that the next one is pinned.")
@yes_option
@json_option
def host_keys(name: str, forget: bool, yes: bool, as_json: bool) -> None:
    """Show the host key that is pinned for an SSH target, which is the first one that it presented.

    Forget the key only if you know that the target was reinstalled.
    """
    with client() as api, looking_up(api, CONNECTION, name) as items:
        host_keys = items.below(name, "hostkeys").everything()["data"]
        if forget:
            confirm(f"Forget the host key of {name}, and trust the next one", yes)
            items.act(name, "hostkeys", method="DELETE")
    if forget:
        print_result(
            {"forgotten": [host_key["fingerprint"] for host_key in host_keys]},
            as_json,
            f"Forgot the host key of {name}.",
        )
        return
    emit(host_keys, as_json, _show_host_keys)


def _show_host_keys(host_keys: list[Row]) -> None:
    rows = [
        [host_key["algorithm"], host_key["fingerprint"], local_time(host_key["pinned_at"]), host_key["session_id"]]
        for host_key in host_keys
    ]
    show_table(
        ["algorithm", "fingerprint", "pinned", "session"],
        rows,
        "No host key is pinned: no SSH session has reached the target yet.",
    )
