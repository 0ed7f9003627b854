"""A Connection: a named target and its settings (spec 2.1, limits in section 8)."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from postern.domain.named_resource import is_declared
from postern.domain.reference import IDENTITY, Reference
from postern.domain.resource_identifiers import is_identifier
from postern.domain.secret import Secret
from postern.domain.text import one_line
from postern.errors import Invalid
from postern.protocols.registry import COMMAND_PROTOCOL, PROTOCOLS, SSH_PROTOCOL


class ConnectionType(StrEnum):
    DATABASE = "database"
    APPLICATION = "application"
    CUSTOM = "custom"


class Toggle(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class Extra(StrEnum):
    """What an SSH client may request besides a shell and commands; the connection's field `access_…` enables it."""

    FORWARD_LOCAL = "forward_local"
    FORWARD_REMOTE = "forward_remote"
    FORWARD_AGENT = "forward_agent"
    FILE_TRANSFER = "file_transfer"


class ConnectionStatus(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"


def _own_subtypes(kind: str) -> frozenset[str]:
    """Return the subtypes of this connection type that have a protocol of their own."""
    return frozenset(spec.name for spec in PROTOCOLS.values() if spec.type == kind)


SUBTYPES: Mapping[ConnectionType, frozenset[str]] = {
    ConnectionType.DATABASE: _own_subtypes("database"),
    ConnectionType.APPLICATION: _own_subtypes("application"),
    ConnectionType.CUSTOM: _own_subtypes("custom"),
}

_NAME = re.compile(r"[A-Za-z0-9_](?:[.-]?[A-Za-z0-9_])*")
_TAG_KEY = re.compile(r"[A-Za-z0-9\-_/.]{1,64}")
_TAG_VALUE = re.compile(r"[A-Za-z0-9 \-_/+@:=.]{1,256}")
_SECRET_KEY = re.compile(r"(?:envvar|filesystem):[A-Za-z_][A-Za-z0-9_]*")
MAX_TAGS = 10
MAX_LIST, MAX_TEXT = 100, 1_000  # entries, and characters of each
# The subtypes whose own protocol is spoken, and what is spoken with any other that has a command.
SPOKEN = frozenset(spec.name for spec in PROTOCOLS.values() if spec.type)
TERMINAL = COMMAND_PROTOCOL
SSH = SSH_PROTOCOL
# What is shown there is text without rows, and a shell may read what is asked.
TEXTUAL = frozenset(spec.name for spec in PROTOCOLS.values() if spec.is_textual)
# Its bytes are passed on unread: nothing there can be judged, masked or run.
OPAQUE = frozenset(spec.name for spec in PROTOCOLS.values() if spec.is_opaque)
OPAQUE_REASON: Final = "Postern passes its bytes on without reading them"
OF_VALUES = SPOKEN - TEXTUAL - OPAQUE
# Reached by a local port of the command line, with any client.
BY_LOCAL_PORT = frozenset(spec.name for spec in PROTOCOLS.values() if spec.local_port is not None)
# Its native clients have a certificate of the gateway instead of a password.
BY_CERTIFICATE = frozenset(spec.name for spec in PROTOCOLS.values() if spec.logs_in_by_certificate)
# Requests of one session run at the same time, and each recorded output is whole messages.
CONCURRENT = frozenset(spec.name for spec in PROTOCOLS.values() if spec.exchange_of is not None)
# What is shown there can be read as tables.
OF_TABLES = frozenset(spec.name for spec in PROTOCOLS.values() if spec.results is not None)
OWN_PREFIX = "POSTERN_"
DATABASE_KEY = "envvar:DB"
PASSWORD_KEY = "envvar:PASS"  # noqa: S105 - a key
MAX_DATABASE = 128  # characters


def protocol_of(subtype: str, command: Sequence[str]) -> str:
    """Return the protocol of a target; a subtype without one stands for itself."""
    return TERMINAL if command and subtype not in SPOKEN else subtype


def check_name(name: str, field: str = "name") -> None:
    """Check a resource name: 3 to 128 letters, digits, `_`, with single `-` or `.` between them."""
    if not 3 <= len(name) <= 128 or not _NAME.fullmatch(name):
        raise Invalid(
            f"{field}: {name!r} is not a valid name; use 3 to 128 letters, digits or '_', "
            "with single '-' or '.' between them",
            field=field,
        )


def check_new_name(name: str) -> None:
    """Check a name as `check_name` does; it must not look like an identifier either."""
    check_name(name)
    if is_identifier(name):
        raise Invalid("name: must not look like an identifier", field="name")


def check_tags(tags: Mapping[str, str]) -> None:
    """Check tags (spec section 8)."""
    if len(tags) > MAX_TAGS:
        raise Invalid(
            f"connection_tags: {len(tags)} tags given, at most {MAX_TAGS} are allowed", field="connection_tags"
        )
    for key, value in tags.items():
        if not is_tag_key(key):
            raise Invalid(
                f"connection_tags: key {key!r} must be 1 to 64 characters of letters, digits and '-_/.', "
                "and must not end with '-' or '/'",
                field="connection_tags",
            )
        if not _TAG_VALUE.fullmatch(value):
            raise Invalid(
                f"connection_tags: the value of {key!r} must be 1 to 256 characters of letters, digits, "
                "space and '-_/+@:=.'",
                field="connection_tags",
            )


def check_list(values: Sequence[str], field: str) -> None:
    """Check a list. Raises Invalid."""
    if len(values) > MAX_LIST or any(len(value) > MAX_TEXT for value in values):
        raise Invalid(f"{field}: at most {MAX_LIST} entries of {MAX_TEXT} characters", field=field)


def check_database(name: str) -> None:
    """Raise Invalid unless `name` can be the name of a database."""
    if not 1 <= len(name) <= MAX_DATABASE or one_line(name) != name:
        raise Invalid(f"default_database: must be 1 to {MAX_DATABASE} printable characters", field="default_database")


def is_tag_key(key: str) -> bool:
    return bool(_TAG_KEY.fullmatch(key)) and key[-1] not in "-/"


class SecretKind(StrEnum):
    """How a command gets a secret: as the value of a variable, or as a file whose path the variable holds."""

    VARIABLE = "envvar"
    FILE = "filesystem"


def secret_key(key: str) -> tuple[SecretKind, str]:
    """Split `envvar:NAME` or `filesystem:NAME`. Raises Invalid."""
    if not _SECRET_KEY.fullmatch(key):
        raise Invalid(f"secret: key {key!r} must be 'envvar:NAME' or 'filesystem:NAME'", field="secret")
    kind, _, name = key.partition(":")
    if name.upper().startswith(OWN_PREFIX):
        raise Invalid(
            f"secret: key {key!r}: names that begin with {OWN_PREFIX} are reserved for Postern", field="secret"
        )
    return SecretKind(kind), name


def check_secret(secret: Mapping[str, str]) -> None:
    """Check a secret: keys as in `secret_key`, each name once; values base64 (of text, for a variable) or a Reference.

    Raises Invalid, which does not repeat a value.
    """
    names = set()
    for key, value in secret.items():
        kind, name = secret_key(key)
        if name in names:
            raise Invalid(f"secret: the name {name!r} is set twice; use only one kind", field="secret")
        names.add(name)
        if value.startswith("_"):  # which base64 never does
            try:
                reference = Reference.read(value)
            except Invalid as problem:
                raise Invalid(f"secret: {key!r}: {problem.message}", field="secret") from None
            if reference.provider == IDENTITY and key != PASSWORD_KEY:
                raise Invalid(
                    f"secret: {key!r}: a login token of a cloud identity can only be the password, {PASSWORD_KEY!r}",
                    field="secret",
                )
        elif not _is_base64(value, of_text=kind is SecretKind.VARIABLE):
            raise Invalid(f"secret: the value of {key!r} is neither base64 text nor a reference", field="secret")


def _is_base64(value: str, *, of_text: bool) -> bool:
    try:
        content = base64.b64decode(value, validate=True)
        text = content.decode() if of_text else ""
    except ValueError:
        return False
    return "\0" not in text  # no environment variable can hold it


INEFFECTIVE_TYPES: Final = (
    "redact_types is set, but redact_enabled is false, so these types are not masked; set redact_enabled to true"
)


@dataclass(frozen=True, slots=True)
class Connection:
    """Every field of spec 2.1. `secret` maps `envvar:NAME` or `filesystem:NAME` to base64 or a Reference's text."""

    id: UUID
    org_id: UUID
    name: str
    type: ConnectionType
    subtype: str
    agent_id: UUID
    access_mode_connect: Toggle = Toggle.ENABLED
    access_mode_exec: Toggle = Toggle.ENABLED
    access_mode_runbooks: Toggle = Toggle.ENABLED
    access_schema: Toggle = Toggle.ENABLED
    access_forward_local: Toggle = Toggle.DISABLED
    access_forward_remote: Toggle = Toggle.DISABLED
    access_forward_agent: Toggle = Toggle.DISABLED
    access_file_transfer: Toggle = Toggle.ENABLED
    access_mode_web_terminal: Toggle = Toggle.DISABLED
    access_fresh_factor: Toggle = Toggle.DISABLED
    access_max_duration: int | None = None
    command: tuple[str, ...] = ()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    force_approve_groups: tuple[str, ...] = ()
    guardrail_rules: tuple[str, ...] = ()
    issue_template_id: str | None = None
    redact_enabled: bool = False
    redact_types: tuple[str, ...] = ()
    resource_name: str = ""
    reviewers: tuple[str, ...] = ()
    secret: Mapping[str, Secret] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    managed_by: str | None = None
    place: UUID | None = None  # another one once it leads elsewhere: what was approved was approved for this
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1

    def is_named(self, org_id: UUID, ids: Collection[UUID], tags: Mapping[str, str]) -> bool:
        """Return whether a rule for those listed, and those that carry all of `tags`, applies to it; no tags name
        nothing."""
        if self.org_id != org_id:
            return False
        carries = bool(tags) and all(self.connection_tags.get(key) == value for key, value in tags.items())
        return self.id in ids or carries

    def leads_where(self, other: Connection) -> bool:
        """Return whether both lead to the same target, by the same way, as the same user there."""
        own_target, other_target = (
            (
                connection.type,
                connection.subtype,
                connection.agent_id,
                tuple(connection.command),
                dict(connection.secret),
            )
            for connection in (self, other)
        )
        return own_target == other_target

    @property
    def is_declared(self) -> bool:
        """Whether an embedded agent declares it; then nothing else can change it."""
        return is_declared(self.managed_by)

    @property
    def protocol(self) -> str:
        return protocol_of(self.subtype, self.command)

    @property
    def guardrails_advisory(self) -> bool:
        """Whether its input rules are advisory: it is unknown what a shell does with a line."""
        return self.protocol in TEXTUAL and bool(self.guardrail_rules)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings without effect, as sentences for readers and writers of the connection."""
        if self.redact_types and not self.redact_enabled:
            return (INEFFECTIVE_TYPES,)
        return ()

    def allows(self, extra: Extra) -> bool:
        """Return whether its own switch is on; access rules are checked elsewhere."""
        switch: Toggle = getattr(self, f"access_{extra}")
        return switch is Toggle.ENABLED

    @property
    def default_database(self) -> str | None:
        """The secret attribute `DB` (spec 2.1), for database connections."""
        if self.type is not ConnectionType.DATABASE:
            return None
        value = self.secret.get(DATABASE_KEY)
        if value is None or value.reveal().startswith("_"):
            return None
        return base64.b64decode(value.reveal()).decode()
