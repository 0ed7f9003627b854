"""The interface of a protocol to the rest of Postern: one value of facts and functions from `protocols/NAME/spec.py`.

    domain, store, services, api, cli ──▶ facts (names, ports, keys)        read at import, plain values
    gateway ──▶ GatewaySpec and WireSpec (gateway/gateway_protocols.py)             ┐
    agent   ──▶ AgentSpec (agent/agent_protocols.py)                              ┴ one ProtocolSpec is all three
    wiring  ──▶ the rest: parsers, lineage, and readers of recordings

This module, the registry and the specs are below all other packages, so that even the domain can read facts. They
therefore import nothing at run time. The functions of a spec import what they return when they are called: a process
loads only the protocols, parsers and libraries that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.domain.sessions.script_parameters import BoundScript
    from postern.gateway.agent_dialers import ReachableAgent
    from postern.gateway.clients.session_setup import SessionSetup
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, Runner, TunnelServer, WireParts
    from postern.gateway.rules.row_counts import RowCounter
    from postern.inspection.masking.origins import SessionLineages
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser, SessionParser
    from postern.interception.pipeline import Interceptor
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Catalogue, Script
    from postern.protocols.protocol_database_uri import DatabaseUri
    from postern.recording.recording_library import Archive, ResultReader
    from postern.recording.recording_rendering import Renderer
    from postern.recording.steps import AnswerReader
    from postern.relay.relay_target import Dialer
    from postern.services.bundle import Services
    from postern.settings import Settings


@dataclass(frozen=True, slots=True)
class TargetKeys:
    """The keys of a connection's secret. Administrators can read the `readable` ones; all other values are write-only.
    `port` is the target's default port when the key PORT is missing. `one_of`: at least one of these is required.
    `prefixes`: any key that begins with one of these and has more is a private one, too."""

    port: int
    required: tuple[str, ...]
    readable: tuple[str, ...]
    private: tuple[str, ...]
    one_of: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        return self.readable + self.private

    def has(self, name: str) -> bool:
        """Return whether the secret can have that key."""
        return name in self.known or any(name.startswith(prefix) and name != prefix for prefix in self.prefixes)


def database_keys(port: int) -> TargetKeys:
    """Return the keys of a database that is reached over TCP."""
    return TargetKeys(
        port,
        required=("HOST", "USER"),
        readable=("HOST", "PORT", "USER", "DB", "SSLMODE"),
        private=("PASS", "SSLROOTCERT"),
    )


class ScriptSyntax(StrEnum):
    """The quoting and comment syntax of scripts. Runbooks quote values by it."""

    SHELL = "a shell"
    DOLLAR_QUOTES = "SQL with dollar quotes"  # also E'\\', nested comments, and \commands of the client
    # also #, `names`, executable comments /*! … */, and commands of the client
    BACKSLASH_ESCAPES = "SQL with backslash escapes"
    TSQL = "T-SQL"
    PL_SQL = "PL/SQL"
    SQLITE = "SQLite"
    SQL = "SQL"  # the dialect is unknown
    PYTHON = "Python"
    JAVASCRIPT = "JavaScript"
    HTTP = "HTTP requests"  # as in .http files, separated by ###
    OTHER = "other"

    @property
    def is_sql(self) -> bool:
        return self in _SQL


_SQL: Final = frozenset(
    {
        *(ScriptSyntax.DOLLAR_QUOTES, ScriptSyntax.BACKSLASH_ESCAPES, ScriptSyntax.TSQL),
        *(ScriptSyntax.PL_SQL, ScriptSyntax.SQLITE, ScriptSyntax.SQL),
    }
)


def no_parameters(name: str) -> Mapping[str, str]:
    """Return the login parameters of a protocol that has none."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectSpec:
    """A query language that rules can evaluate.

    `parser` makes a parser for each process, `names` tracks what one session has prepared, and `encodings` guards the
    encoding of its texts. `lineage` finds the columns that answers come from, and `facts` are further facts about
    statements that masking needs. `split` finds where the statements of a script are.
    """

    name: str
    parser: Callable[[], Parser]
    names: Callable[[Parser], SessionParser] | None = None
    encodings: Callable[[Parser], Interceptor] | None = None
    lineage: Callable[[], SessionLineages] | None = None
    facts: Callable[[], StatementFacts] | None = None
    split: Callable[[], Callable[[str], ScriptSpans]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSpec:
    """A protocol. `name` is its name in recordings and the API; `title` and `servers` are the display names of the
    protocol and of its servers.

    Facts:
    - `type` is the connection type of its subtype, empty where it has no subtype of its own.
    - `aliases` are other spellings of the subtype.
    - `port` is the default port of its listener; 0: the listener, if there is one (`gate`), is off by default.
    - `is_textual`: it returns text without rows, and a shell can read its input.
    - `is_web`: people open its targets in a browser, at a host of their own for each connection.
    - `is_opaque`: its bytes are passed on unread. Rules about content are rejected, and each direction ends alone.
    - `logs_in_by_certificate`: its native clients have a certificate of the gateway instead of a password.
    - `has_cancel`: a separate request cancels the running one; otherwise the end of its stream does.
    - `signs_requests`: the agent signs each request, and can do so with its own identity at AWS.
    - `needs_secret_files`: secrets of the kind `filesystem` are written to files for it.
    - `keys` are those of its targets, None where a command accepts any.
    - `syntax` is the syntax of scripts, as the target or its own client reads them.
    - `variables` are the environment variables of its own clients, by the key that they stand for.
    - `password_variable` holds the password for a command.
    - `unsafe_variables` are prefixes of variables that users must not set for commands.
    - `file_functions` are functions of the server that reach its files and programs.
    - `preload` are the modules that every relay worker needs for it, to be loaded once for all workers.

    Functions (`tested_by_login`: a connection test only logs in, as there is no catalogue):
    - `wires` makes the steady state of links, `targets` dials, `gate` serves native clients.
    - `host_key` returns the public key by which its listener proves its identity, and creates the key if there is none.
    - `login_key` makes what the listener's login needs of a credential's new password before the client sends it; it is
      stored with the credential. Without it, passwords are checked by their SCRAM verifier alone.
    - `local_port` serves clients of the command line's local ports, for a protocol whose clients do not log in.
    - `runner` serves command lines and terminals in browsers that start a program at the target.
    - `script` is what `exec` runs; without it, scripts are rejected. `bound_script` is the same with parameters that
      the protocol binds; without it, parameters become literals. `parameters` are those of the gateway's own logins,
      given its name there.
    - `renderer`, `results` and `answers` read recorded output: as text, as tables, and answer by answer.
    - `exchange_of` returns the number of the exchange that a recorded output belongs to, for a protocol whose requests
      run at the same time, and whose records are whole messages.
    - `archive` writes a recorded session in a format that other tools for the protocol read.
    - `row_counts` counts the rows that held statements would affect; `checked_agent` checks what an agent dials.
    - `client` is the program that users start.
    """

    name: str
    title: str
    servers: str
    type: str
    wires: Callable[[WireParts], OpenWire]
    targets: Callable[[LocalPolicy, Mapping[str, str]], Targets]
    renderer: Callable[[], Renderer]
    script: Callable[[str], Script] | None = None
    aliases: tuple[str, ...] = ()
    port: int = 0
    is_textual: bool = False
    is_opaque: bool = False
    is_web: bool = False
    logs_in_by_certificate: bool = False
    has_cancel: bool = True
    signs_requests: bool = False
    needs_secret_files: bool = True
    tested_by_login: bool = False
    keys: TargetKeys | None = None
    syntax: ScriptSyntax = ScriptSyntax.OTHER
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    password_variable: str = ""
    unsafe_variables: tuple[str, ...] = ()
    file_functions: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    gate: Callable[[GateParts], Gate] | None = None
    host_key: Callable[[Settings], str] | None = None
    login_key: Callable[[str], bytes] | None = None
    local_port: Callable[[SessionSetup], TunnelServer] | None = None
    runner: Callable[[SessionSetup], Runner] | None = None
    bound_script: Callable[[BoundScript], Script] | None = None
    parameters: Callable[[str], Mapping[str, str]] = no_parameters
    catalogue: Callable[[], Catalogue | None] = lambda: None
    row_counts: Callable[[Dialer], RowCounter] | None = None
    checked_agent: Callable[[ReachableAgent, Services], ReachableAgent] | None = None
    results: Callable[[], ResultReader] | None = None
    answers: Callable[[], AnswerReader] | None = None
    exchange_of: Callable[[bytes], int] | None = None
    archive: Callable[[], Archive] | None = None
    dialect: DialectSpec | None = None
    uri: Callable[[], DatabaseUri] | None = None
    client: Callable[[], NativeClient] | None = None

    @property
    def port_setting(self) -> str:
        """Return the name of the setting with its listener's port; empty where there is no listener."""
        return f"{self.name}_port" if self.gate is not None else ""

    @property
    def is_off_by_default(self) -> bool:
        """Return whether its listener has no port until one is set."""
        return self.gate is not None and not self.port
