"""The gateway's interface to a protocol for scripts and catalogue queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from postern.domain.sessions.script_parameters import BoundScript
from postern.protocols.gateway_queries import Catalogue, Script
from postern.protocols.registry import PROTOCOLS


class QuerySpec(Protocol):
    @property
    def script(self) -> Callable[[str], Script] | None: ...

    @property
    def bound_script(self) -> Callable[[BoundScript], Script] | None: ...

    @property
    def parameters(self) -> Callable[[str], Mapping[str, str]]: ...

    @property
    def catalogue(self) -> Callable[[], Catalogue | None]: ...

    @property
    def tested_by_login(self) -> bool: ...


QUERY_SPECS: Final[Mapping[str, QuerySpec]] = PROTOCOLS


def catalogue_of(protocol: str) -> Catalogue | None:
    """Return the catalogue of a protocol; None if it has none, or is unknown."""
    spec = QUERY_SPECS.get(protocol)
    return None if spec is None else spec.catalogue()
