"""The client that runs a script in a session, and what it logs in with."""

from __future__ import annotations

import asyncio

from postern.domain.rules.permit import Permit
from postern.domain.sessions.script_parameters import BoundScript, Parameters
from postern.domain.targets.command import NOTHING_ADDED, Invocation
from postern.domain.targets.connection import TEXTUAL, Connection
from postern.gateway.query_spec import QUERY_SPECS
from postern.protocols.gateway_queries import Script
from postern.relay.relay_target import Start
from postern.services.script_binding import bind


async def bind_script(connection: Connection, text: str, parameters: Parameters) -> BoundScript:
    """Return the script with its values. Raises Invalid as `bind`."""
    if not parameters:
        return BoundScript(text)
    return await asyncio.to_thread(bind, text, parameters, connection)


def make_client(connection: Connection, script: BoundScript) -> Script:
    spec = QUERY_SPECS[connection.protocol]
    if spec.bound_script is None or not script.placeholders:
        return spec.script(script.text)
    return spec.bound_script(script)


def script_start(permit: Permit, invocation: Invocation = NOTHING_ADDED) -> Start:
    if permit.connection.protocol in TEXTUAL:
        environment = {name: value.reveal() for name, value in invocation.environment.items()}
        return Start(arguments=invocation.arguments, environment=environment)
    return Start(parameters=QUERY_SPECS[permit.connection.protocol].parameters(f"postern {permit.principal.email}"))
