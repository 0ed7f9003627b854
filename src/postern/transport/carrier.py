"""The connection below a tunnel: a transport that takes whole messages and prepends its own header to each, without a
copy."""

from __future__ import annotations

import asyncio

from postern.transport.send_queue import HEADROOM


class Carrier(asyncio.Transport):
    def write_message(self, message: bytearray) -> None:
        """Send everything except the first HEADROOM bytes. The carrier may overwrite the whole buffer."""
        self.write(memoryview(message)[HEADROOM:])
