"""Reader of SSH's wire format (RFC 4251 section 5), for untrusted data."""

from __future__ import annotations


class SshReader:
    """Each method raises ValueError for truncated data, or a spelling that is not canonical."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at(self) -> int:
        """The number of bytes read."""
        return self._at

    @property
    def is_done(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError("too short")
        data = self._data[self._at : end]
        self._at = end
        return data

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def uint64(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def string(self) -> bytes:
        return self.take(self.uint32())

    def number(self) -> int:
        """Read a positive mpint."""
        data = self.string()
        value = int.from_bytes(data, "big", signed=True)
        if value <= 0 or (len(data) > 1 and data[0] == 0 and data[1] < 0x80):
            raise ValueError("not a positive number in its shortest form")
        return value


def strings(data: bytes) -> list[bytes]:
    """Read strings, one after the other, to the end. Raises ValueError."""
    reader, items = SshReader(data), []
    while not reader.is_done:
        items.append(reader.string())
    return items


def string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
