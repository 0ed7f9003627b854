"""What carries a tunnel: a transport that takes whole messages and prepends its own header to each, without a copy."""

from __future__ import annotations

import asyncio

from postern.transport.send_queue import HEADROOM


class Carrier(asyncio.Transport):
    def write_message(self, message: bytearray) -> None:
        """Sends all but the first HEADROOM bytes, which may be written to; so may the others, once it is sent."""
        self.write(memoryview(message)[HEADROOM:])
