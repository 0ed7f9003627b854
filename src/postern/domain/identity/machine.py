"""A machine identity: a program that reaches connections natively, by credentials that are rotated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from postern.domain.identity.principal import Principal


@dataclass(frozen=True, slots=True)
class MachineIdentity:
    """`connection_names` are those it holds a live credential for, by name."""

    principal: Principal
    description: str
    created_at: datetime
    updated_at: datetime
    attributes: Mapping[str, str] = field(default_factory=dict)
    connection_names: tuple[str, ...] = ()
