"""The client that runs a script in a session, and what it logs in with."""

from __future__ import annotations

import asyncio

from postern.domain.rules.permit import Permit
from postern.domain.sessions.script_parameters import BoundScript, Parameters
from postern.domain.targets.command import NOTHING_ADDED, Invocation
from postern.domain.targets.connection import DATABASE_KEY, TEXTUAL, Connection
from postern.errors import Invalid
from postern.gateway.query_spec import QUERY_SPECS
from postern.protocols.gateway_queries import Script, ScriptInSteps
from postern.relay.relay_target import Start
from postern.services.script_binding import bind


async def bind_script(connection: Connection, text: str, parameters: Parameters) -> BoundScript:
    """Return the script with its values. Raises Invalid as `bind`."""
    if not parameters:
        return BoundScript(text)
    return await asyncio.to_thread(bind, text, parameters, connection)


def make_client(connection: Connection, script: BoundScript, database: str | None = None) -> Script:
    """Return the script's client. `database` is the target's default one, None if it is unknown.

    Raises Invalid for a script that its protocol cannot send, and where no script can run, which was checked when the
    script was submitted.
    """
    spec = QUERY_SPECS[connection.protocol]
    if spec.script is None:
        raise Invalid(f"scripts cannot be run on subtype {connection.subtype!r}")
    if spec.bound_script is None or not script.placeholders:
        client = spec.script(script.text)
    else:
        client = spec.bound_script(script)
    if isinstance(client, ScriptInSteps):
        client.use_database(database)
    return client


def known_database(connection: Connection, start: Start) -> str | None:
    """Return the default database of a target that is not asked: None if only the agent can read its name."""
    if start.database is not None or DATABASE_KEY not in connection.secret:
        return start.database or ""
    return connection.default_database


def script_start(permit: Permit, invocation: Invocation = NOTHING_ADDED) -> Start:
    if permit.connection.protocol in TEXTUAL:
        environment = {name: value.reveal() for name, value in invocation.environment.items()}
        return Start(arguments=invocation.arguments, environment=environment)
    return Start(parameters=QUERY_SPECS[permit.connection.protocol].parameters(f"postern {permit.principal.email}"))
