"""Attestations of terminals in browsers: the API's process tells a relay worker who the client of a stream is.

A worker sees the API's process as the peer of such a stream. The attestation tells it the browser's address, and that
the stream serves a browser. It is a MAC with a key that only the gateway's processes can derive, over the login's token
and the address, so that no command line can claim a different address.
"""

from __future__ import annotations

import hashlib
import hmac
import json

from postern.domain.secret import Secret
from postern.errors import Denied
from postern.store.ports.target_ports import AccessStore


class TerminalAttestations:
    def __init__(self, store: AccessStore) -> None:
        self._store = store

    async def issue(self, token: Secret, address: str) -> Secret:
        key = bytes.fromhex((await self._store.terminal_key()).reveal())
        text = json.dumps([token.reveal(), address]).encode()
        return Secret(hmac.new(key, text, hashlib.sha256).hexdigest())

    async def require(self, token: Secret, address: str, attestation: Secret) -> None:
        """Raises Denied for a attestation of a different process, token or address."""
        expected = await self.issue(token, address)
        if not hmac.compare_digest(attestation.reveal().encode(errors="replace"), expected.reveal().encode()):
            raise Denied("only the gateway's own API can open terminals of browsers")
