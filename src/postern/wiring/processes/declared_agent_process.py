"""An agent in an application's container: it declares the one connection that it serves, and keeps its secrets."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from postern.agent.agent_database_uri import read
from postern.agent.agent_policy import LocalPolicy
from postern.agent.command_process import DEFAULT_PATH
from postern.agent.declared_connection import DeclaredConnection
from postern.agent.exported_variables import select_exported
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import Resolver
from postern.agent.target_dialer import TargetDialer
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey, AgentMode
from postern.domain.targets.connection import ConnectionType
from postern.domain.targets.declaration import Declaration
from postern.errors import Misconfigured
from postern.protocols.protocol_database_uri import DatabaseUri
from postern.protocols.registry import PROTOCOLS
from postern.settings import AgentSettings
from postern.wiring.processes import agent_process


@dataclass(frozen=True, slots=True)
class AgentRunRequest:
    """The options of `postern run`: a `command` with variables that match `exports`, or the database whose URI is in
    the `variable`, of the kind `database`."""

    name: str
    command: tuple[str, ...] = ()
    database: str = ""
    variable: str = ""
    exports: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    redact_types: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


def run(settings: AgentSettings, environ: Mapping[str, str], request: AgentRunRequest) -> None:
    """Run until it is stopped. Raises Misconfigured or Invalid at once; Unauthenticated, Malformed or Conflict if the
    gateway rejects it for good."""
    key = AgentKey.read(settings.key)
    if key.mode is not AgentMode.EMBEDDED:
        raise Misconfigured(
            f"the key of agent {key.name!r} is not for an embedded agent; create another one with `postern "
            "admin agents create NAME --mode embedded`, or start this one with `postern agent`",
            field="key",
        )
    declaration, secrets = read_declaration(environ, request)
    reach = TargetDialer(Resolver(None, SecretFiles(environ)), local_policy(settings), environ)
    agent_process.serve(key, DeclaredConnection(reach, declaration, secrets), settings.agent_grace, declaration)


def local_policy(settings: AgentSettings) -> LocalPolicy:
    """Return the policy: only the declared connection runs here, and no session hook unless the policy allows it.
    Raises Misconfigured."""
    policy = agent_process.local_policy(settings)
    return replace(policy, hooks=policy.hooks is True)


def read_declaration(environ: Mapping[str, str], request: AgentRunRequest) -> tuple[Declaration, dict[str, Secret]]:
    """Return the declaration, and the secrets that stay here, by their bare names. Raises Misconfigured, Invalid."""
    database = _database(environ, _kind(request.database), request.variable) if request.database else None
    declaration = Declaration(
        name=request.name,
        type=ConnectionType.CUSTOM if database is None else ConnectionType.DATABASE,
        subtype=request.database,
        command=request.command,
        reviewers=request.reviewers,
        redact_types=request.redact_types,
        connection_tags=request.tags,
        default_database="" if database is None or "DB" not in database else database["DB"].reveal(),
    )
    declaration.check()
    if database is not None:
        return declaration, database
    _check_command(environ, request.command)
    return declaration, select_exported(environ, request.exports)


def _kind(protocol: str) -> DatabaseUri:
    uri = PROTOCOLS[protocol].uri
    assert uri is not None  # `postern run` offers the protocols that have one
    return uri()


def _database(environ: Mapping[str, str], kind: DatabaseUri, variable: str) -> dict[str, Secret]:
    uri = environ.get(variable)
    if not uri:
        raise Misconfigured(
            f"variable {variable} is not set; it must contain the URI of the database, such as {kind.example}",
            field=kind.subtype,
        )
    return read(kind, variable, Secret(uri))


def _check_command(environ: Mapping[str, str], command: Sequence[str]) -> None:
    if shutil.which(command[0], path=environ.get("PATH") or DEFAULT_PATH) is None:
        raise Misconfigured(
            f"command {command[0]!r} does not exist, or cannot be run; give its absolute path, or set PATH",
            field="command",
        )
