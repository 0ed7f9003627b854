"""Keys of pages whose attributes are masked.

`LastEvaluatedKey` is the key of the last item of a page. The client sends it back as `ExclusiveStartKey`, so a masked
one would end the query. Attributes of it that rules mask are therefore sealed: encrypted, and given to the client as a
text. It belongs to one user, connection, table and attribute, and opens nowhere else than in `ExclusiveStartKey`.

The secret is the same in all workers, so that the next page can be asked for on another connection.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX: Final = "postern-sealed."
_NONCE: Final = 12
_PURPOSE: Final = b"postern dynamodb page keys"
_MAX_SEALED: Final = 8192  # characters; the attributes of a key have at most 3 KiB together

Key = Mapping[str, Any]


class UnknownSeal(ValueError):
    """A sealed attribute was not sealed here, for this user, connection, table and attribute."""


class KeySealer:
    """Seals and opens attributes of keys. `owner` identifies the user and the connection. An empty `secret` stands for
    one that no other has."""

    def __init__(self, secret: bytes, owner: str) -> None:
        self._cipher = AESGCM(hmac.digest(secret or os.urandom(32), _PURPOSE, "sha256"))
        self._owner = owner

    def seal(self, table: str, attribute: str, value: Any) -> dict[str, str]:
        """Return the attribute's value as a text that does not show it."""
        nonce = os.urandom(_NONCE)
        content = json.dumps(value).encode()
        sealed = nonce + self._cipher.encrypt(nonce, content, self._context(table, attribute))
        return {"S": PREFIX + base64.urlsafe_b64encode(sealed).decode().rstrip("=")}

    def seal_changed(self, table: str, original: Key, current: Key) -> dict[str, Any]:
        """Return the original key, with those attributes sealed that are not the same in the current one."""
        return {
            name: value if current.get(name) == value else self.seal(table, name, value)
            for name, value in original.items()
        }

    def open_key(self, table: str, key: Key) -> dict[str, Any]:
        """Return a key without seals. Raises UnknownSeal."""
        return {name: self._open(table, name, value) if is_sealed(value) else value for name, value in key.items()}

    def _open(self, table: str, attribute: str, value: Mapping[str, str]) -> Any:
        text = value["S"][len(PREFIX) :]
        try:
            if len(text) > _MAX_SEALED:
                raise ValueError
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            nonce, content = sealed[:_NONCE], sealed[_NONCE:]
            return json.loads(self._cipher.decrypt(nonce, content, self._context(table, attribute)))
        except (ValueError, InvalidTag):
            raise UnknownSeal(f"the value of {attribute[:64]!r} was not sealed for this query") from None

    def _context(self, table: str, attribute: str) -> bytes:
        return json.dumps([self._owner, table, attribute]).encode()


def is_sealed(value: object) -> bool:
    """Return whether this is the value of a sealed attribute."""
    text = value.get("S") if isinstance(value, Mapping) else None
    return isinstance(text, str) and text.startswith(PREFIX)


def has_seals(key: Key) -> bool:
    return any(is_sealed(value) for value in key.values())
