"""What connections of each subtype can be, and which keys their secret has."""

from __future__ import annotations

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.targets.connection import SUBTYPES, ConnectionType
from postern.domain.targets.target_keys import TARGET_KEYS
from postern.protocols.registry import PROTOCOLS, SSH_PROTOCOL
from postern.protocols.spec import TargetKeys


class TargetKeyAnswer(Answer):
    name: str = Field(description="Without `envvar:`")
    is_required: bool
    is_private: bool = Field(description="Whether its value can never be read back")


class ConnectionTypeAnswer(Answer):
    type: ConnectionType
    subtype: str = Field(description="Empty for a command of no particular kind")
    title: str = Field(description="Display name of its servers")
    has_protocol: bool = Field(
        description="Whether Postern speaks its protocol; a connection of another subtype runs its `command`"
    )
    has_tables: bool = Field(description="Whether scripts are SQL, and `access_schema` shows tables and columns")
    is_web: bool = Field(description="Whether people open it in a browser, at the `url` of the connection")
    has_ssh_features: bool = Field(description="Whether the fields access_forward_… and access_file_transfer apply")
    port: int | None = Field(description="Default port of targets; null if it has none")
    keys: list[TargetKeyAnswer] = Field(description="Keys of `secret`; empty for a command, which accepts any")
    key_prefixes: list[str] = Field(description="Any key that begins with one of these is allowed, too; it is private")


def connection_types() -> list[ConnectionTypeAnswer]:
    """Return all subtypes; first those that Postern has a protocol for, in the order of the registry."""
    kinds = [(kind, subtype) for kind, subtypes in SUBTYPES.items() for subtype in sorted(subtypes)]
    kinds.append((ConnectionType.CUSTOM, ""))
    places = {name: place for place, name in enumerate(PROTOCOLS)}  # the most used first
    described = (_describe(kind, subtype) for kind, subtype in kinds)
    return sorted(described, key=lambda answer: places.get(answer.subtype, len(places)))


def _describe(kind: ConnectionType, subtype: str) -> ConnectionTypeAnswer:
    spec = PROTOCOLS.get(subtype)
    keys = TARGET_KEYS.get(subtype)
    return ConnectionTypeAnswer(
        type=kind,
        subtype=subtype,
        title=spec.servers if spec else subtype,
        has_protocol=spec is not None,
        has_tables=spec is not None and spec.dialect is not None,
        is_web=spec is not None and spec.is_web,
        has_ssh_features=subtype == SSH_PROTOCOL,
        port=keys.port if keys else None,
        keys=_describe_keys(keys) if keys else [],
        key_prefixes=list(keys.prefixes) if keys else [],
    )


def _describe_keys(keys: TargetKeys) -> list[TargetKeyAnswer]:
    return [
        TargetKeyAnswer(name=name, is_required=name in keys.required, is_private=name in keys.private)
        for name in keys.known
    ]
