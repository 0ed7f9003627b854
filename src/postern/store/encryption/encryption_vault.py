"""Sealing and opening: AES-256-GCM by the data key of an organisation, each value bound to the row it belongs to.

A sealed value is `version (1 byte, 2) · data key's id (16) · nonce (12) · ciphertext and tag`. The associated data is
version, data key and the row's name: a value that was copied into another row cannot be decrypted there, and one that
was copied into another organisation has a wrong data key. Version 1 was encrypted with the key file itself, and can
still be decrypted; `store.sql.resealing` converts it to version 2.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from postern.errors import Malformed, Misconfigured
from postern.store.encryption.encryption_masters import KEY
from postern.store.ports.keys import DataKey, DataKeyStore, MasterKey

DIRECT, ENVELOPE = b"\x01", b"\x02"
_NONCE = 12
PREFIX = 1 + 16  # bytes: version and data key


class _Opened:
    """A data key in use."""

    __slots__ = ("cipher", "material", "org_id", "prefix")

    def __init__(self, key: DataKey, material: bytes) -> None:
        if len(material) != KEY:
            raise Misconfigured(f"{key.context} has {len(material)} bytes instead of {KEY}")
        self.org_id = key.org_id
        self.prefix = ENVELOPE + key.id.bytes
        self.cipher = AESGCM(material)
        self.material = material


class Encryption:
    """Seals and opens values. 96-bit random nonces are safe for far more than a billion values of each data key.

    Data keys are read at the first use or by `load`, when a value names an unknown one, and after `refresh`. An
    organisation gets its data key at its first value; concurrent processes all use the first one.
    """

    def __init__(
        self,
        store: DataKeyStore,
        master: MasterKey,
        *,
        old: Sequence[MasterKey] = (),
        direct: bytes | None = None,
    ) -> None:
        """`old`: masters that remain until a rotation is finished. `direct`: the key of version 1."""
        self._store = store
        self._master = master
        self._masters = {key.id: key for key in (*old, master)}
        self._direct = AESGCM(direct) if direct else None
        self._known: dict[bytes, _Opened] = {}
        self._using: dict[UUID | None, _Opened] = {}
        self._first: dict[UUID | None, _Opened] = {}
        self._fresh = False
        self._loading = asyncio.Lock()

    def refresh(self) -> None:
        """Reload the data keys before the next use, since another process added some."""
        self._fresh = False

    async def load(self) -> None:
        """Load the data keys. Raises Misconfigured when one cannot be unwrapped with the master keys, Unavailable
        when the store or a master key does not answer."""
        async with self._loading:
            await self._read()

    async def seal(self, value: bytes, *, row: str, org_id: UUID | None) -> bytes:
        """Seal a value. `row` names table and row. Not inside a transaction: it may have to create a data key."""
        key = self._using.get(org_id) if self._fresh else None
        if key is None:
            key = await self._key_for(org_id)
        nonce = os.urandom(_NONCE)
        return key.prefix + nonce + key.cipher.encrypt(nonce, value, key.prefix + row.encode())

    async def open(self, sealed: bytes, *, row: str, org_id: UUID | None) -> bytes:
        """Open a value. Raises Misconfigured when the key is different, or the value was changed or moved."""
        prefix = sealed[:PREFIX]
        key = self._known.get(prefix)
        if key is None:
            if sealed[:1] == DIRECT:
                return self._open_direct(sealed, row)
            if sealed[:1] != ENVELOPE:
                raise Misconfigured(f"the secret of {row} has an unknown format: a newer version of Postern wrote it")
            await self.load()
            key = self._known.get(prefix)
            if key is None:
                raise Misconfigured(f"the secret of {row} was encrypted with a data key that this store does not have")
        if key.org_id != org_id:
            raise Misconfigured(f"the secret of {row} was encrypted for a different organisation; its row was moved")
        try:
            return key.cipher.decrypt(
                sealed[PREFIX : PREFIX + _NONCE], sealed[PREFIX + _NONCE :], prefix + row.encode()
            )
        except InvalidTag:
            raise Misconfigured(
                f"the secret of {row} cannot be decrypted: it was changed, or moved from a different row"
            ) from None

    async def derive(self, purpose: str) -> bytes:
        """Return 32 secret bytes that are the same in every process and at every start, from the server's first data
        key (HKDF, RFC 5869). `purpose` separates uses."""
        await self._key_for(None)
        return HKDF(SHA256(), KEY, salt=None, info=f"postern: {purpose}".encode()).derive(self._first[None].material)

    async def in_use(self, org_id: UUID | None) -> UUID:
        """Return the organisation's data key that is not retired."""
        key = self._using.get(org_id) if self._fresh else None
        return UUID(bytes=(key or await self._key_for(org_id)).prefix[1:])

    def derive_key(self, data_key: UUID, org_id: UUID | None, *, salt: bytes, info: bytes) -> bytes | None:
        """Return 32 bytes derived from a data key (HKDF, RFC 5869), also of a retired one; None while it is not loaded.

        Raises Malformed when it is another organisation's.
        """
        key = self._known.get(ENVELOPE + data_key.bytes)
        if key is None:
            return None
        if key.org_id != org_id:
            raise Malformed("it is encrypted with a data key of a different organisation: it was moved")
        return HKDF(SHA256(), KEY, salt=salt, info=info).derive(key.material)

    async def prefix(self, org_id: UUID | None) -> bytes:
        """Return the prefix of values that are sealed for this organisation now."""
        return (await self._key_for(org_id)).prefix

    async def renew(self, org_id: UUID | None) -> None:
        """Seal with a new data key from now on; the old one opens what it sealed. Other processes must `refresh`."""
        await self._store.renew(await self._make_key(org_id))
        await self.load()

    def _open_direct(self, sealed: bytes, row: str) -> bytes:
        if self._direct is None:
            raise Misconfigured(
                f"the secret of {row} was encrypted by an earlier version, with keys/encryption.key; restore that file"
            )
        try:
            return self._direct.decrypt(sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :], DIRECT + row.encode())
        except InvalidTag:
            raise Misconfigured(
                f"the secret of {row} cannot be decrypted with this encryption key; "
                "restore the keys/encryption.key of this database"
            ) from None

    async def _key_for(self, org_id: UUID | None) -> _Opened:
        async with self._loading:
            if not self._fresh or org_id not in self._using:
                await self._read()
            if org_id not in self._using:
                await self._store.add_first(await self._make_key(org_id))
                await self._read()
            return self._using[org_id]

    async def _make_key(self, org_id: UUID | None) -> DataKey:
        material = os.urandom(KEY)
        draft = DataKey(uuid4(), org_id, b"", self._master.id, datetime.now(UTC))
        wrapped = await asyncio.to_thread(self._master.wrap, material, draft.context)
        return DataKey(draft.id, org_id, wrapped, draft.master, draft.created_at)

    async def _read(self) -> None:
        self._fresh = True  # before reading, so that a concurrent `refresh` causes another read
        try:
            rows = await self._store.all()
            new = [row for row in rows if ENVELOPE + row.id.bytes not in self._known]
            for row, material in zip(new, await asyncio.to_thread(self._unwrap, new), strict=True):
                opened = _Opened(row, material)
                self._known[opened.prefix] = opened
        except BaseException:
            self._fresh = False
            raise
        opened_rows = [(row, self._known[ENVELOPE + row.id.bytes]) for row in rows]
        self._using = {row.org_id: opened for row, opened in opened_rows if row.retired_at is None}
        self._first = {row.org_id: opened for row, opened in reversed(opened_rows)}

    def _unwrap(self, rows: Sequence[DataKey]) -> list[bytes]:
        materials = []
        for row in rows:
            master = self._masters.get(row.master)
            if master is None:
                raise Misconfigured(
                    f"the data keys of this store are encrypted with the master key {row.master}, but "
                    f"POSTERN_MASTER_KEY names {self._master.id}; set it to the former, or finish "
                    "`postern keys rotate`",
                    field="master_key",
                )
            materials.append(master.unwrap(row.wrapped, row.context))
        return materials
