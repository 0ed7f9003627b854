from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from postern.cli import completion
from postern.cli.api import client, in_force
from postern.cli.client_certificate_files import default_folder, write_certificate_files
from postern.cli.login import login_renewal, profile
from postern.cli.login.profile import Profile
from postern.cli.printing import emit, json_option, local_time
from postern.cli.scripts import script_options
from postern.cli.scripts.review_notices import ReviewNotices
from postern.cli.status import Status, report, report_note
from postern.cli.terminal import native_client, terminal
from postern.cli.terminal.forward import LOOPBACK, PortForward, StreamRequest
from postern.cli.timestamps import seconds
from postern.client.client_shapes import Connection, IssuedCredential, ServerInfo
from postern.client.native_clients import CLIENTS, FORMS, credential_in_form, require_form
from postern.domain.secret import Secret
from postern.domain.server import NATIVE
from postern.domain.targets.connection import BY_CERTIFICATE, BY_LOCAL_PORT, SSH, TERMINAL, protocol_of
from postern.domain.text import one_line
from postern.errors import Invalid, Misconfigured, PosternError
from postern.protocols.clients import NativeCredential, netloc
from postern.protocols.registry import DEFAULT_PROTOCOL

RENEW_EVERY = 300.0  # seconds between two checks whether the token needs a refresh


_NAMES = dict.fromkeys(client.program for client in CLIENTS.values() if client.forms and not client.by_certificate)
_PROGRAMS = ", ".join([*_NAMES][:-1]) + f" or {[*_NAMES][-1]}"
_EXAMPLES = "\n".join(line for client in CLIENTS.values() for line in client.examples)
_HELP = f"""Connect to a database with its own client, to a server by SSH, to a TCP service, or to a command.

Databases: at a terminal this starts {_PROGRAMS}. It needs no password, because it uses your login.
Arguments after -- go to the client.

With --tunnel, --port or --json, and without a terminal, it opens a local port until Ctrl-C. Clients on that port need
no password and connect as you. Every user of this machine can reach the port: on a shared machine use --native.

--native issues a credential, and prints a {_PROGRAMS} command that uses it. Its user name and password also work in
DBeaver, JDBC and scripts. --format prints it in another form: a URI, a JDBC URL, an SQLAlchemy URL, Django settings,
shell variables, or a file that the client reads.

SSH servers: at a terminal this starts ssh with your key. Elsewhere it prints the ssh command, with --native one that
uses a credential.

TCP services: it opens a local port until Ctrl-C, for any client of the service. Each client is a session. If the
gateway listens for TCP clients, --native issues a client certificate instead, writes it to files, and prints commands
that use it.

Commands: it runs the connection's command as if it were a program of this machine, with the same keys, window size,
signals and exit code. Arguments after -- go to the command. Without a terminal, standard input, output and error are
passed on unchanged.

If access needs a review, your client or command waits: you see who must approve and where, and it continues after the
approval. Reviewers read --reason. `postern reviews request` asks before you connect. If sessions open an issue in a
tracker, --issue-field fills in what its template asks for.

\b
postern connect shop-demo
postern connect shop-demo --tunnel --port 5433
postern connect shop-demo --native
eval "$(postern connect shop-demo --native --hours 8)"
{_EXAMPLES}
postern connect shop-console
postern connect shop-demo --reason "ticket 4711" --duration 2h
postern connect shop-demo --issue-field summary="restore the orders of monday"
tar c . | postern connect backup -- --name monday
"""


@click.command(help=_HELP)
@click.argument("name", shell_complete=completion.connections)
@click.argument("arguments", nargs=-1)
@click.option("--tunnel", is_flag=True, help="Open a local port for any client, and start no client.")
@click.option("--native", is_flag=True, help="Issue a credential and print the client's command with it.")
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    shell_complete=lambda _context, _parameter, begun: [form for form in FORMS if form.startswith(begun)],
    help="With --native: print the credential in this form. The error about an unknown one lists those of the target.",
)
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True),
    help="With --native: how long it is valid, in hours.  [default: 12]",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --native, for TCP services: where to write the certificate and its key.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Local port.  [default: a free one]")
@click.option("--reason", default="", help="Reason, shown to the reviewers if access needs a review.")
@click.option(
    "--duration",
    type=seconds,
    metavar="TIME",
    help="How long you need access, if it needs a review: 30m, 2h. The access can end earlier.",
)
@script_options.issue_fields
@json_option
def connect(
    name: str,
    arguments: tuple[str, ...],
    tunnel: bool,
    native: bool,
    form: str | None,
    hours: float | None,
    folder: Path | None,
    port: int,
    reason: str,
    duration: int | None,
    fields: tuple[str, ...],
    as_json: bool,
) -> None:
    for_carried = bool(reason or duration is not None or fields)
    _check_options(tunnel=tunnel, native=native, form=form, hours=hours, as_json=as_json, for_carried=for_carried)
    options = _SessionOptions(reason, duration, script_options.fields_of(fields))
    with client() as api:
        info = api.serverinfo()
        connection = api.connections.get(name)
        is_command = protocol_of(connection["subtype"], connection["command"] or ()) == TERMINAL
        if is_command and (native or tunnel or port or as_json):
            raise click.UsageError(
                "--native, --tunnel, --port and --json are for databases; this connection runs a command"
            )
        if connection["subtype"] == SSH and (tunnel or form or port or for_carried):
            raise click.UsageError(
                "--tunnel, --format, --port, --reason, --duration and --issue-field are not for SSH "
                "connections; your own SSH client connects to the gateway directly"
            )
        by_local_port = connection["subtype"] in BY_LOCAL_PORT
        if folder is not None and not (native and connection["subtype"] in BY_CERTIFICATE):
            raise click.UsageError("--folder is only for --native with TCP services")
        starts = not (is_command or by_local_port or tunnel or native or port or as_json) and _at_terminal()
        if arguments and not (is_command or starts):
            raise click.UsageError(
                "arguments after -- are only for commands, and for clients that `postern connect` starts at a terminal"
            )
        if not is_command and connection["subtype"] not in NATIVE and not by_local_port:
            raise Invalid(
                f"connection {name!r} has the subtype {connection['subtype']!r}, which this version cannot connect to"
            )
        if form is not None:
            require_form(connection["subtype"], form)
        issued = api.credentials.issue(name, None if hours is None else round(hours * 3600)) if native else None
    if starts and (program := _client_of(connection)) is not None:
        sys.exit(_start(program, info, connection, options, arguments))
    if connection["subtype"] == SSH:
        _show_ssh(info, connection, issued, as_json)
    elif is_command:
        sys.exit(terminal.run(_make_target(info, connection, options), arguments))
    elif issued is None:
        asyncio.run(_carry(_make_target(info, connection, options), connection, port, as_json))
    elif connection["subtype"] in BY_CERTIFICATE:
        _show_certified(connection, issued, folder or default_folder(os.environ), form, as_json)
    elif form is not None:
        _show_form(info, connection, issued, form)
    else:
        _show_native(info, connection, issued, as_json)


def _check_options(
    *, tunnel: bool, native: bool, form: str | None, hours: float | None, as_json: bool, for_carried: bool
) -> None:
    """Check which options exclude each other, for any connection. `for_carried`: an option is given that only carried
    connections take. Raises UsageError."""
    if hours is not None and not native:
        raise click.UsageError("--hours needs --native")
    if form is not None and (not native or as_json):
        raise click.UsageError("--format needs --native, and cannot be combined with --json")
    if tunnel and native:
        raise click.UsageError("give --tunnel (clients connect as you) or --native (issues a credential), not both")
    if native and for_carried:
        raise click.UsageError("--reason, --duration and --issue-field cannot be combined with --native")


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _client_of(connection: Connection) -> str | None:
    """Return the path of the installed client, or None after a hint what to install. A protocol can have no client of
    its own."""
    client_of = CLIENTS.get(connection["subtype"])
    if client_of is None:
        return None
    program = client_of.find()
    if program is None:
        report(Status.INFO, client_of.advice)
    return program


def _start(
    program: str, info: ServerInfo, connection: Connection, options: _SessionOptions, arguments: Sequence[str]
) -> int:
    """Start the client at this terminal, and return its exit code."""
    if connection["subtype"] == SSH:
        line = _ssh_line(_ssh_user(connection), info)
        report(Status.INFO, line)
        return subprocess.run([program, *shlex.split(line)[1:], *arguments], check=False).returncode
    database = connection["default_database"] or ""
    stream_request = _make_target(info, connection, options)
    environ, used = profile.environ(), in_force()
    return native_client.run(
        CLIENTS[connection["subtype"]],
        [program, *arguments],
        stream_request,
        database,
        lambda forward: keep_fresh(forward, environ, used),
    )


async def _carry(stream_request: StreamRequest, connection: Connection, port: int, as_json: bool) -> None:
    environ, used = profile.environ(), in_force()
    forward = PortForward(stream_request, lambda reason: report(Status.ERROR, one_line(reason)))
    notices = ReviewNotices(connection["name"])
    forward.joined = notices.look_soon
    try:
        opened = await forward.start(port)
    except OSError as error:
        raise Misconfigured(
            f"port {port} cannot be used ({error.strerror}); choose a different one with --port"
        ) from None
    native = CLIENTS.get(connection["subtype"])
    database = connection["default_database"] or (native.default_database if native else "")
    address: dict[str, object] = {"host": LOOPBACK, "port": opened, "database": database}
    line = netloc(LOOPBACK, opened)
    if connection["subtype"] in BY_LOCAL_PORT:
        line = f"{line} leads to {connection['name']!r}. Each client that connects there is a session."
    if native is not None and native.carried_line is not None:
        address[native.program] = line = native.carried_line(LOOPBACK, opened, database)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    emit(address, as_json, lambda _: click.echo(f"{line}\nCtrl-C ends it."))
    renewing = asyncio.create_task(keep_fresh(forward, environ, used))
    await stopped.wait()
    renewing.cancel()
    notices.stop()
    await forward.stop()


@dataclass(frozen=True, slots=True)
class _SessionOptions:
    """Fields that are sent to the gateway with each session."""

    reason: str
    duration: int | None
    tracker_fields: Mapping[str, str]


def _make_target(info: ServerInfo, connection: Connection, options: _SessionOptions) -> StreamRequest:
    used = in_force()
    assert used.token is not None
    authority = info["ca_certificate"] or ""
    return StreamRequest(
        info["tunnel_url"],
        used.token,
        connection["name"],
        authority,
        options.reason,
        options.duration,
        options.tracker_fields,
        connection["subtype"] if connection["subtype"] in {*NATIVE, *BY_LOCAL_PORT} else DEFAULT_PROTOCOL,
    )


async def keep_fresh(
    forward: PortForward, environ: Mapping[str, str], used: Profile, every: float = RENEW_EVERY
) -> None:
    """Keep the forward's token fresh. A forward can outlive a token; its next connection uses the token that is valid
    then. It never uses the token of another login, even if the profile changes meanwhile."""
    while True:
        await asyncio.sleep(every)
        try:
            now = await asyncio.to_thread(lambda: login_renewal.fresh(environ, profile.require(environ)))
        except PosternError:
            continue  # the next connection reports the reason
        if now.token is not None and (now.api_url, now.email) == (used.api_url, used.email):
            forward.request = replace(forward.request, token=now.token)


def _show_native(info: ServerInfo, connection: Connection, issued: IssuedCredential, as_json: bool) -> None:
    authority = _keep_authority(info)
    address: dict[str, object] = {**issued, "sslrootcert": str(authority) if authority else "system"}
    line = f"{netloc(issued['host'], issued['port'])} user={issued['username']} password={issued['password']}"
    if (native := CLIENTS.get(connection["subtype"])) is not None:
        credential = _credential(connection, issued, authority)
        address[native.program] = line = native.line(credential)
        address["lines"] = [asdict(one) for one in native.lines(credential)]
    emit(address, as_json, lambda _: click.echo(line))
    if not as_json:
        report_note(f"valid until {local_time(issued['expires_at'])}; the password is shown only once")


def _show_form(info: ServerInfo, connection: Connection, issued: IssuedCredential, form: str) -> None:
    credential = _credential(connection, issued, _keep_authority(info))
    click.echo(credential_in_form(connection["subtype"], form, credential))
    report_note(f"valid until {local_time(issued['expires_at'])}; the password is shown only once")


def _show_certified(
    connection: Connection, issued: IssuedCredential, folder: Path, form: str | None, as_json: bool
) -> None:
    """Write a client certificate to files, and print the commands that use it, or the one of `form`."""
    files = write_certificate_files(issued, folder)
    subtype = connection["subtype"]
    credential = replace(_credential(connection, issued, files.authority), certificate=files.certificate, key=files.key)
    lines = CLIENTS[subtype].lines(credential)
    shown = [credential_in_form(subtype, form, credential)] if form is not None else [line.text for line in lines]
    address = {**issued, "lines": [asdict(line) for line in lines]}
    emit(address, as_json, lambda _: click.echo("\n".join(shown)))
    if not as_json:
        until = local_time(issued["expires_at"])
        report_note(f"valid until {until}; the certificate and its private key are in {files.certificate.parent}")


def _credential(connection: Connection, issued: IssuedCredential, authority: Path | None) -> NativeCredential:
    database = issued["database"] or CLIENTS[connection["subtype"]].default_database
    return NativeCredential(
        issued["username"],
        Secret(issued["password"]),
        issued["host"],
        issued["port"],
        database,
        authority,
        web_url=connection["url"] or "",
    )


def _ssh_line(user: str, info: ServerInfo) -> str:
    """Return the command of a client that logs in by itself."""
    credential = NativeCredential(user, Secret(""), info["ssh_host"], info["ssh_port"], "", None)
    return CLIENTS[SSH].line(credential)


def _ssh_user(connection: Connection) -> str:
    return f"{in_force().email}#{connection['name']}"


def _show_ssh(info: ServerInfo, connection: Connection, issued: IssuedCredential | None, as_json: bool) -> None:
    """Print the SSH command. A user's own key needs the connection's name; a credential contains it."""
    user = _ssh_user(connection) if issued is None else issued["username"]
    host, port = info["ssh_host"], info["ssh_port"]
    line = _ssh_line(user, info)
    address = {**(issued or {}), "host": host, "port": port, "username": user, CLIENTS[SSH].program: line}
    emit(address, as_json, lambda _: click.echo(line))
    if as_json:
        return
    if issued is None:
        report_note("uses one of your SSH keys: `postern ssh-keys create` adds one; --native issues a password instead")
    else:
        until = local_time(issued["expires_at"])
        report_note(f"password {issued['password']}, shown only once; valid until {until}")


def _keep_authority(info: ServerInfo) -> Path | None:
    """Write the gateway's CA certificate to a file for clients, one for each CA, so that earlier commands stay valid.
    Return None if the system's CAs are enough."""
    text = info["ca_certificate"]
    if not text:
        return None
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    file = profile.path(os.environ).with_name(f"ca-{mark}.crt")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(text)
    return file
