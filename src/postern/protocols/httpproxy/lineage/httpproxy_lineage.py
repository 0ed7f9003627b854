"""Origins of values in JSON: the table is the path of the request, the column is the path in the document.

So a rule about `email` masks every field of that name. `/api/users.email` masks that of one path, at the top of its
answers (arrays do not count), `/api/users.items.email` a field deeper in them, and `/api/*.email` that of all paths
below. An application can return a value under any name, and it is trusted not to. Where the client chooses
the names, as in GraphQL, and where a path can be read in several ways, origins are unknown.
"""

from __future__ import annotations

import json
import re
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.masking.origins import SessionLineages, Sources
from postern.interception.events import Column
from postern.protocols.httpproxy.request_paths import read_path

_GRAPHQL: Final = re.compile(r"\s*(?:\{|query\b|mutation\b|subscription\b|fragment\b)")
_LONGEST: Final = 1 << 20  # characters of a body that is read


class HttpproxyLineage:
    """The port `SessionOrigins`."""

    def record_statement(self, statement: str) -> None: ...

    def record_gap(self) -> None: ...

    def unread(self, statement: str) -> UnreadText | None:
        return None

    def of(self, statement: str, columns: tuple[Column, ...]) -> Sources | None:
        path = _path_of(statement)
        if not path:
            return None
        return tuple(_origin(path, column.name) for column in columns)

    def tags(self, column: ColumnRef) -> frozenset[str]:
        return frozenset()


def _origin(path: str, column: str) -> Origin:
    refs = frozenset({ColumnRef("", path, column)})
    return Origin(refs, frozenset({refs}))


def _path_of(statement: str) -> str:
    """Return the path of a request; empty if it does not tell the names in the response."""
    head, _, body = statement.partition("\n\n")
    method, _, target = head.partition("\n")[0].partition(" ")
    path, _, query = target.partition("?")
    readings = read_path(path)
    if method == "WEBSOCKET" or readings.ambiguous or path.rstrip("/").lower().endswith("graphql"):
        return ""
    if "query=" in query and _GRAPHQL.match(re.sub(r".*?\bquery=", "", query).replace("%7B", "{").replace("%7b", "{")):
        return ""
    return "" if _is_graphql(body) else readings.paths[0]


def _is_graphql(body: str) -> bool:
    if '"query"' not in body:
        return False
    try:
        content = json.loads(body[:_LONGEST])
    except (ValueError, RecursionError):
        return True
    queries = content if isinstance(content, list) else [content]
    return any(
        isinstance(each, dict) and isinstance(each.get("query"), str) and _GRAPHQL.match(each["query"])
        for each in queries
    )


def httpproxy_lineage() -> SessionLineages:
    """Return what makes the origins of a session."""
    lineage = HttpproxyLineage()
    return lambda schema: lineage
