"""Which parser reads the statements of which connections."""

from __future__ import annotations

from collections.abc import Mapping

from postern.domain.dialect import DIALECTS
from postern.inspection.sql.parser import Parser
from postern.inspection.sql.postgres.parser import PostgresParser

PARSERS: Mapping[str, Parser] = {"postgres": PostgresParser()}  # by the name of the dialect

PARSED = frozenset(protocol for protocol, dialect in DIALECTS.items() if dialect in PARSERS)


def parser_for(protocol: str) -> Parser | None:
    """Of what is spoken with a target; None where nothing can be known of statements."""
    return PARSERS.get(DIALECTS.get(protocol, ""))
