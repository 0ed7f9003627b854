"""The port for counting the rows that held statements would affect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from postern.domain.rules.permit import Permit
from postern.domain.rules.row_count import RowCount
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Start


@dataclass(frozen=True, slots=True)
class HeldStatement:
    """A held statement and its bind values. `bound` are these as in `Request.bound_values`, the other fields as in
    `Operation`."""

    text: str
    values: tuple[bytes | None, ...] = ()
    truncated: bool = False
    unsure: tuple[int, ...] = ()
    types: tuple[int, ...] = ()
    encoding: str = "utf-8"
    bound: bytes = b""


class RowCounter(Protocol):
    """Counts the rows that held statements would affect."""

    async def of(
        self,
        permit: Permit,
        start: Start,
        statements: Sequence[HeldStatement],
        standing: TransactionState | None = None,
    ) -> RowCount | None:
        """Return the count, None if no statement changes rows. Never raises, except when cancelled."""
