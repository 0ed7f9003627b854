r"""Recognition of programs that copy files by the first bytes of their protocol, however they were started.

A command's text does not show which program runs in the end (`env`, `sudo`, variables, aliases). The protocols do: a
client of scp, rsync or sftp continues only after these bytes, and no file is transferred before them.

    scp     "C0644 12 name\n", "D0755 0 name\n", "T1700000000 0 1700000000 0\n"    from the side that sends
    rsync   its version as four bytes, the lowest first                            from both sides
    sftp    a packet: length, INIT (1) of the client or VERSION (2), a version     from both sides
"""

from __future__ import annotations

import re
from typing import Final

_BEGINNINGS: Final = (
    ("scp", re.compile(rb"\0?(?:[CD][0-7]{3,5} [0-9]{1,19} [^/\n]+|T[0-9]+ [0-9]+ [0-9]+ [0-9]+)\n")),
    ("rsync", re.compile(rb"[\x14-\x2f]\0\0\0")),
    ("sftp", re.compile(rb"\0[\0-\x03][\0-\xff]{2}[\x01\x02]\0\0\0[\x01-\x06]", re.DOTALL)),
)
_LINE: Final = re.compile(rb"\0?[CDT][0-9 ]*")
_PACKET: Final = 9  # bytes that identify the protocols without lines
_LONGEST: Final = 4 * 1024


class ProtocolDetector:
    """Detector for one direction of a program."""

    def __init__(self) -> None:
        self._data = b""
        self._is_over = False

    def protocol(self, data: bytes) -> str:
        """Return the name of the protocol that these bytes complete, or an empty string."""
        if self._is_over:
            return ""
        self._data += data[: _LONGEST - len(self._data)]
        for name, pattern in _BEGINNINGS:
            if pattern.match(self._data) is not None:
                self._is_over = True
                return name
        is_line = _LINE.match(self._data) is not None and b"\n" not in self._data
        self._is_over = len(self._data) >= (_LONGEST if is_line else _PACKET)
        return ""
