"""LOBs of a session, and the operations on them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.oracledb import server_calls as calls
from tests.support.oracledb import type_codings as types
from tests.support.oracledb.server_calls import LobCall
from tests.support.oracledb.server_replies import lob_data_reply, lob_reply
from tests.support.oracledb.sql_translation import SqlError

LENGTH = 40
FLAG_BLOB, FLAG_CLOB, FLAG_SET, FLAG_UTF16, FLAG_TEMPORARY = 0x01, 0x02, 0x08, 0x80, 0x01
MOST = 100_000


@dataclass
class LargeObject:
    """A LOB. Texts are in UTF-16, as those of a database with AL32UTF8 travel."""

    is_text: bool
    data: bytes = b""
    temporary: bool = False
    is_open: bool = False

    @property
    def unit(self) -> int:
        return 2 if self.is_text else 1

    @property
    def size(self) -> int:
        return len(self.data) // self.unit

    def value(self) -> str | bytes:
        return self.data.decode("utf-16-be") if self.is_text else self.data


class LargeObjects:
    """The LOBs that a session has given locators to."""

    def __init__(self) -> None:
        self._objects: dict[int, LargeObject] = {}
        self._last = 0

    def add(self, value: str | bytes, temporary: bool = False) -> bytes:
        """Keep a value, and return its locator."""
        if len(self._objects) >= MOST:
            self._objects.pop(next(iter(self._objects)))
        is_text = isinstance(value, str)
        data = value.encode("utf-16-be") if isinstance(value, str) else value
        self._last += 1
        self._objects[self._last] = LargeObject(is_text, data, temporary)
        return self._locator(self._last)

    def _locator(self, number: int) -> bytes:
        large = self._objects[number]
        flags = [FLAG_CLOB if large.is_text else FLAG_BLOB, FLAG_SET]
        flags += [FLAG_UTF16 if large.is_text else 0, FLAG_TEMPORARY if large.temporary else 0]
        head = bytes([0, LENGTH - 2, 0, 1, *flags, 0, 1])
        return head + number.to_bytes(10, "big") + bytes(LENGTH - 20)

    def get(self, locator: bytes) -> LargeObject:
        """Return the LOB of a locator. Raises SqlError."""
        large = self._objects.get(int.from_bytes(locator[10:20], "big"))
        if large is None:
            raise SqlError(22922, "nonexistent LOB value")
        return large

    def free(self, locators: bytes) -> None:
        for start in range(0, len(locators), LENGTH):
            self._objects.pop(int.from_bytes(locators[start + 10 : start + 20], "big"), None)

    def operate(self, call: LobCall) -> bytes:
        """Carry out an operation, and return its part of the reply. Raises SqlError."""
        if call.operation & ~calls.LOB_ARRAY == calls.LOB_FREE:
            self.free(call.locator)
            return lob_reply(call, call.locator, call.amount)
        if call.operation == calls.LOB_CREATE:
            locator = self.add("" if call.kind == types.CLOB else b"", temporary=True)
            return lob_reply(call, locator, call.amount)
        large = self.get(call.locator)
        start = (max(call.offset, 1) - 1) * large.unit
        match call.operation:
            case calls.LOB_LENGTH:
                return lob_reply(call, call.locator, large.size)
            case calls.LOB_READ:
                end = start + call.amount * large.unit if call.amount else len(large.data)
                data = large.data[start:end]
                amount = len(data) // large.unit
                return (lob_data_reply(data) if data else b"") + lob_reply(call, call.locator, amount)
            case calls.LOB_WRITE:
                return self._write(call, large, start)
            case calls.LOB_TRIM:
                self._require_temporary(large)
                large.data = large.data[: (call.amount or 0) * large.unit]
                return lob_reply(call, call.locator, call.amount)
            case calls.LOB_CHUNK_SIZE:
                return lob_reply(call, call.locator, 8060 // large.unit)
            case calls.LOB_OPEN | calls.LOB_CLOSE:
                large.is_open = call.operation == calls.LOB_OPEN
                return lob_reply(call, call.locator, call.amount)
        if call.operation == calls.LOB_IS_OPEN:
            return lob_reply(call, call.locator, call.amount, int(large.is_open))
        raise SqlError(22275, f"LOB operation {call.operation:#x} is not implemented")

    @staticmethod
    def _require_temporary(large: LargeObject) -> None:
        if not large.temporary:
            raise SqlError(22920, "row containing the LOB value is not locked")

    def _write(self, call: LobCall, large: LargeObject, start: int) -> bytes:
        self._require_temporary(large)
        kept = large.data[:start].ljust(start, b"\0")
        large.data = kept + call.data + large.data[start + len(call.data) :]
        return lob_reply(call, call.locator, call.amount)
