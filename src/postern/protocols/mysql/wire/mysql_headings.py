"""The description of a result's columns, which is evaluated before the client receives it.

A server derives lengths, numbers of decimals and even types from constants, and it treats user variables, parameters
and queries that return one row as constants: the column of `repeat('a', @n)` is as long as @n. Names come from the text
of a statement, which can be made from values. So the packets from the number of columns to the last definition are
buffered until the pipeline has decided, and the definition of a computed column can be replaced by a fixed one.
"""

from __future__ import annotations

from postern.interception.events import Heading
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_rows import MysqlLayout


class ColumnHeading(Heading):
    """A result's description. `head` is the payload before the definitions, with their number; empty for a prepared
    statement. `sequence` is the id of the first packet to the client. `adds_metadata`: the client reads extended
    metadata that the target does not send."""

    def __init__(
        self,
        exchange: int,
        layout: MysqlLayout,
        head: bytes,
        definitions: list[bytes],
        sequence: int,
        prepared: str,
        *,
        may_fetch: bool,
        adds_metadata: bool,
    ) -> None:
        self.exchange = exchange
        self.columns = layout.columns
        self.count = 0
        self.prepared = prepared
        self.may_fetch = may_fetch
        self.sequence = sequence
        self._head = head
        self._definitions = definitions
        self._adds_metadata = adds_metadata
        self._as_text: dict[int, bool] = {}  # by index: True if the name stays

    @property
    def as_text(self) -> frozenset[int]:
        """Return the indexes of columns that are described as texts, and whose values must be sent as texts."""
        return frozenset(self._as_text)

    def describe_as_text(self, column: int, *, with_name: bool = True) -> None:
        self._as_text[column] = with_name

    def encode(self) -> bytes:
        sequence = self.sequence
        packets: list[bytes] = []
        if self._head:
            packets.append(m.packet(sequence, self._head))
            sequence += 1
        for place, payload in enumerate(self._definitions):
            if place in self._as_text:
                payload = m.definition_of_text(payload, self._as_text[place])
            if self._adds_metadata:
                payload = m.with_no_metadata(payload)
            packets.append(m.packet(sequence, payload))
            sequence += 1
        return b"".join(packets)
