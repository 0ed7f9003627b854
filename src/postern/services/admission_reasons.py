"""Why admission is denied, as texts for the user: the state of a login, the switches of a connection, and roles.

Each function returns None where nothing is in the way. The switches are those of the connection as it was loaded, or as
they are now (`PermitStanding`).
"""

from __future__ import annotations

from datetime import datetime

from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.runbook import RunbookRef
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import (
    OF_VALUES,
    OPAQUE,
    OPAQUE_REASON,
    SSH,
    TERMINAL,
    Connection,
    Extra,
    Toggle,
)
from postern.domain.targets.connection_use import ConnectionUse
from postern.store.ports.target_ports import PermitStanding

AUDITOR = "auditors can read what others did, but cannot connect"
_WITH_TERMINALS = frozenset({TERMINAL, SSH})

Modes = tuple[Verb, ...]
# Uses of SSH that need each access mode.
_SSH_USES = {Verb.CONNECT: "shells, terminals, sftp and forwarding", Verb.EXEC: "commands"}

_EXTRAS = {
    Extra.FORWARD_LOCAL: "port forwarding to the target's network (ssh -L, -W, -D)",
    Extra.FORWARD_REMOTE: "port forwarding from the target (ssh -R)",
    Extra.FORWARD_AGENT: "SSH agent forwarding (ssh -A)",
    Extra.FILE_TRANSFER: "file transfer (sftp, scp)",
}


def credential_reason(expires_at: datetime | None, revoked_at: datetime | None, now: datetime) -> str | None:
    """Return why a credential is not valid."""
    if revoked_at is not None:
        return f"this credential was revoked at {_moment(revoked_at)}; issue a new one to connect again"
    if expires_at is not None and now >= expires_at:
        return f"this credential expired at {_moment(expires_at)}; issue a new one to connect again"
    return None


def standing_credential_reason(permit: Permit, standing: PermitStanding, now: datetime) -> str | None:
    """Return why the credential of a permit is no longer valid."""
    if permit.credential_id is None:
        return None
    if not standing.credential_exists:
        return "this credential was deleted"
    return credential_reason(standing.credential_expires_at, standing.credential_revoked_at, now)


def principal_reason(active: bool | None) -> str | None:
    """Return why a principal is denied. `active` is None for one who was deleted."""
    if active is None:
        return "this user was deleted"
    return None if active else "this user is inactive; ask an administrator"


def modes_reason(
    switches: Connection | PermitStanding, connection: Connection, modes: Modes, runbook: RunbookRef | None = None
) -> str | None:
    """Return why one of the modes is not open, as `switches` are now."""
    for mode in modes:
        uses = _SSH_USES[mode] if connection.protocol == SSH and runbook is None else ""
        reason = mode_reason(switches, connection.name, mode, runbook, uses=uses)
        if reason is not None:
            return reason
    return None


def mode_reason(
    modes: Connection | PermitStanding,
    connection: str,
    verb: Verb,
    runbook: RunbookRef | None = None,
    *,
    uses: str = "",
) -> str | None:
    """Return why the access mode is closed; None where it is open.

    A runbook needs its own access mode instead of that for scripts: neither opens the other. `uses`: what the mode is
    for, where the message must say so.
    """
    if runbook is not None and modes.access_mode_runbooks is not Toggle.ENABLED:
        return _runbooks_reason(connection)
    if runbook is not None and not runbook.extended:
        return None
    mode = modes.access_mode_connect if verb is Verb.CONNECT else modes.access_mode_exec
    if mode is Toggle.ENABLED:
        return None
    reason = f"access mode {verb} is disabled on connection {connection!r}"
    if runbook is not None:
        return f"{reason}, so its runbooks take no client_args or env_vars; leave them out, or ask an administrator"
    if uses:
        reason += f", which SSH needs for {uses}"
    return f"{reason}; ask an administrator"


def _runbooks_reason(connection: str) -> str:
    return f"access mode runbooks is disabled on connection {connection!r}; ask an administrator"


def schema_reason(connection: Connection) -> str | None:
    """Return why the connection shows no schema; None where it shows one."""
    if connection.access_schema is Toggle.ENABLED:
        return None
    return f"access_schema is disabled on connection {connection.name!r}; ask an administrator"


def scripts_are_impossible(connection: Connection) -> str:
    """Return why no script can run on a connection whose bytes are passed on unread."""
    return (
        f"no script can run on connection {connection.name!r} of subtype {connection.subtype!r}, because "
        f"{OPAQUE_REASON}; use `postern connect {connection.name}` and a client of its protocol"
    )


def unsupported_reason(connection: Connection) -> str:
    """Return why a connection of an unknown protocol is denied."""
    return f"connections of subtype {connection.subtype!r} cannot be opened by this version"


def use_reasons(
    connection: Connection, principal: Principal, scripts_reason: str | None, *, with_runbooks: bool
) -> dict[ConnectionUse, str | None]:
    """Return why each use is closed to the principal, in the words of admission; None where it is open.

    `scripts_reason` is why scripts are switched off; `with_runbooks`: the rules allow a runbook on this connection.
    """
    name = connection.name
    closed = AUDITOR if principal.is_auditor else None
    runbooks = None if connection.access_mode_runbooks is Toggle.ENABLED else _runbooks_reason(name)
    if not with_runbooks and closed is None:
        no_rule = f"no runbook rule allows you to run a runbook on connection {name!r}; ask an administrator"
        runbooks = runbooks or no_rule
    if connection.protocol in OPAQUE:
        scripts_reason = scripts_are_impossible(connection)
    schema = schema_reason(connection)
    if connection.protocol not in OF_VALUES:
        schema = f"connection {name!r} has no schema, because only databases have one"
    reasons = {
        ConnectionUse.CONNECT: modes_reason(connection, connection, (Verb.CONNECT,)),
        ConnectionUse.EXEC: scripts_reason or modes_reason(connection, connection, (Verb.EXEC,)),
        ConnectionUse.RUNBOOKS: scripts_reason or runbooks,
        ConnectionUse.SCHEMA: schema,
    }
    general = principal_reason(principal.is_active)
    return {use: general or reason or closed for use, reason in reasons.items()}


def terminal_reason(switches: Connection | PermitStanding, connection: Connection) -> str | None:
    """Return why no user can open a terminal in a browser, as `switches` are now."""
    name = connection.name
    if connection.protocol not in _WITH_TERMINALS:
        return f"connection {name!r} has no terminal: only commands and SSH servers have one"
    if switches.access_mode_web_terminal is Toggle.ENABLED:
        return None
    return (
        f"terminals in the browser are disabled on connection {name!r} (access_mode_web_terminal); ask an "
        f"administrator, or use `postern connect {name}`"
    )


def extra_reason(connection: str, extra: Extra) -> str:
    """Return why a use of SSH that is disabled is denied."""
    return f"{_EXTRAS[extra]} is disabled on connection {connection!r} (access_{extra}); ask an administrator"


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
