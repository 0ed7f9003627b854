"""How the agent tells the gateway that native encryption failed: by a packet that no target sends.

The gateway reads packets without encryption, which the agent has removed. A failure is the last of them, and names its
reason by a number, so that the text for the client and the log is the gateway's own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from postern.protocols.oracledb.wire import tns_packets as tns


class NativeFailure(IntEnum):
    CHECKSUM = 1
    FORM = 2
    PACKET = 3


_TEXTS: Final = {
    NativeFailure.CHECKSUM: "a packet of the target has a wrong checksum",
    NativeFailure.FORM: "a packet of the target is not encrypted in the way that was agreed on",
    NativeFailure.PACKET: "the target sent a packet that native encryption does not allow",
}


def failure_packet(failure: NativeFailure) -> bytes:
    return tns.packet(tns.FAILURE, bytes((failure,)), large=True)


def failure_text(body: bytes) -> str:
    """Return the reason in a packet of a failure."""
    text = _TEXTS[NativeFailure.PACKET]
    if len(body) == 1 and body[0] in _TEXTS:
        text = _TEXTS[NativeFailure(body[0])]
    return f"native encryption failed: {text}, so it may have been changed on its way; nothing of it was used"
