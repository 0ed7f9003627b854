"""What the gateway needs of a protocol to run scripts on targets, and to ask them what they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from postern.protocols.gateway_queries import Catalogue, Script
from postern.protocols.registry import PROTOCOLS


class QuerySpec(Protocol):
    @property
    def script(self) -> Callable[[str], Script]: ...

    @property
    def parameters(self) -> Callable[[str], Mapping[str, str]]: ...

    @property
    def catalogue(self) -> Callable[[], Catalogue | None]: ...

    @property
    def tested_by_login(self) -> bool: ...


QUERY_SPECS: Final[Mapping[str, QuerySpec]] = PROTOCOLS


def catalogue_of(protocol: str) -> Catalogue | None:
    """Return the catalogue of a protocol; None where it has none, or is not known."""
    spec = QUERY_SPECS.get(protocol)
    return None if spec is None else spec.catalogue()
