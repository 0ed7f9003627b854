"""What SSH writes numbers and texts as (RFC 4251 section 5), read and never trusted."""

from __future__ import annotations


class SshReader:
    """Each step raises ValueError where there is less than is said, or where it is not the only spelling."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at(self) -> int:
        """How much has been read, in bytes."""
        return self._at

    @property
    def is_done(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError("too short")
        found = self._data[self._at : end]
        self._at = end
        return found

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def uint64(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def string(self) -> bytes:
        return self.take(self.uint32())

    def number(self) -> int:
        """A positive mpint."""
        data = self.string()
        value = int.from_bytes(data, "big", signed=True)
        if value <= 0 or (len(data) > 1 and data[0] == 0 and data[1] < 0x80):
            raise ValueError("no positive number, or not its shortest form")
        return value


def strings(data: bytes) -> list[bytes]:
    """One behind the other, to the end. Raises ValueError."""
    reader, found = SshReader(data), []
    while not reader.is_done:
        found.append(reader.string())
    return found


def string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
