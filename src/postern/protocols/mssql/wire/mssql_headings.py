"""The description of a result's columns, which is judged before the client receives it.

A server derives lengths and precisions from constants, and names can be made from values by dynamic SQL. So the
description of a computed column can be replaced by a fixed one.
"""

from __future__ import annotations

from postern.interception.events import Heading
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_rows import MssqlLayout, describe_as_text


class MssqlHeading(Heading):
    """A result's description: a COLMETADATA token."""

    def __init__(
        self, exchange: int, layout: MssqlLayout, prepared: str, *, may_fetch: bool, wide: bool, began: int = 0
    ) -> None:
        self.exchange = exchange
        self._began = began or exchange
        self.columns = layout.columns
        self.count = 0
        self.prepared = prepared
        self.may_fetch = may_fetch
        self.layout = layout
        self._wide = wide
        self._as_text: dict[int, bool] = {}  # by index: True if the name stays

    @property
    def began(self) -> int:
        """Return the exchange that opened the cursor, whose rows are described at each fetch."""
        return self._began

    @property
    def as_text(self) -> frozenset[int]:
        """Return the indexes of columns that are described as texts, and whose values must be sent as texts."""
        return frozenset(self._as_text)

    @property
    def is_changed(self) -> bool:
        return bool(self._as_text)

    def describe_as_text(self, column: int, *, with_name: bool = True) -> None:
        self._as_text[column] = with_name

    def encode(self) -> bytes:
        out: list[bytes] = [bytes((k.COLMETADATA,)), len(self.columns).to_bytes(2, "little")]
        for at, column in enumerate(self.layout.described):
            name_stays = self._as_text.get(at)
            out.append(column.raw if name_stays is None else describe_as_text(column, name_stays, self._wide))
        return b"".join(out)
