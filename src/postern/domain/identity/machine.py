"""A machine identity: a program that uses native clients, by credentials that are rotated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal


@dataclass(frozen=True, slots=True)
class MachineIdentity:
    """`connection_names` are those with a live credential, by name. `issued` are new credentials with their
    passwords, which live for `access_duration_seconds`; only right after they were issued."""

    principal: Principal
    description: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    connection_names: tuple[str, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    access_duration_seconds: int | None = None
    issued: tuple[Issued, ...] = ()
    managed_by: str | None = None

    @property
    def id(self) -> UUID:
        return self.principal.id

    @property
    def org_id(self) -> UUID:
        return self.principal.org_id

    @property
    def name(self) -> str:
        return self.principal.name
