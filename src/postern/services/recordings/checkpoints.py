"""Checkpoints: signed at an interval and on demand, and delivered to the anchors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page, Stretch
from postern.domain.sessions.ledger import AnchorState, Checkpoint, EntryKind, LedgerKey
from postern.errors import Conflict, PosternError, Unavailable
from postern.proof.proof_checkpoints import format_line, new_key, sign_checkpoint
from postern.proof.proof_ledger import LedgerWriter
from postern.services.identity.users import require_admin, require_reader
from postern.services.recordings.recording_ledger import Ledger
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock
from postern.store.ports.ledger_ports import Anchor, CheckpointStore, LedgerKeyStore

log = logging.getLogger(__name__)

PROOF = "the ledger and its checkpoints"
AT_ONCE = 50  # checkpoints delivered to anchors in one round
PATIENCE = 15.0  # seconds that a request for a checkpoint waits for anchors
_TRIES = 20
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=10), timedelta(hours=1)


class Checkpoints:
    def __init__(
        self,
        store: CheckpointStore,
        keys: LedgerKeyStore,
        ledger: Ledger,
        set_up: Callable[[], Sequence[Anchor]],
        interval: timedelta,
        now: Clock,
    ) -> None:
        """`set_up` creates the anchors; the process that needs them calls it once."""
        self._store = store
        self._keys = keys
        self._ledger = ledger
        self._set_up = set_up
        self._made: dict[str, Anchor] | None = None
        self._interval = interval
        self._now = now
        self._shown: set[str] = set()

    def anchors(self) -> dict[str, Anchor]:
        """Return the anchors by name. Raises Misconfigured."""
        if self._made is None:
            self._made = {anchor.name: anchor for anchor in self._set_up()}
        return self._made

    async def find(self, principal: Principal, page: Page) -> Stretch[tuple[Checkpoint, list[AnchorState]]]:
        """Return checkpoints, newest first, each with its anchors. Raises Denied."""
        require_reader(principal, PROOF)
        return await self._store.find(principal.org_id, page)

    async def keys(self, principal: Principal) -> list[LedgerKey]:
        """Return the signing keys, newest first. Raises Denied."""
        require_reader(principal, PROOF)
        await self.signing(principal.org_id)
        return await self._keys.all(principal.org_id)

    async def make(self, principal: Principal) -> Checkpoint:
        """Sign a checkpoint over the whole ledger, and deliver it to the anchors at once.

        Raises Denied, Conflict when the ledger is empty.
        """
        require_admin(principal, "sign checkpoints and rotate the signing key")
        await self._ledger.write()
        checkpoint = await self.sign(principal.org_id)
        if checkpoint is None:
            raise Conflict("the ledger is empty; try again after the first session")
        record_change(None, {"number": checkpoint.number, "hash": checkpoint.hash.hex(), "key": checkpoint.key})
        try:
            async with asyncio.timeout(PATIENCE):
                await self.bring()
        except TimeoutError:
            log.warning("delivery to an anchor is slow; the next round continues: org=%s", principal.org_id)
        return checkpoint

    async def rotate(self, principal: Principal) -> LedgerKey:
        """Sign with another key from now on; the previous key introduces it. Raises Denied, Unavailable."""
        require_admin(principal, "sign checkpoints and rotate the signing key")
        old = await self.signing(principal.org_id)
        for _ in range(_TRIES):
            now = self._now()
            new = new_key(principal.org_id, now)
            writer = LedgerWriter(principal.org_id, await self._ledger.head(principal.org_id))
            entry = writer.add(EntryKind.KEY, now, None, introduces=new.id)
            checkpoint = sign_checkpoint(old, writer.head, now, new.public)
            if await self._keys.rotate(new, entry, checkpoint, list(self.anchors())):
                record_change({"key": old.id}, {"key": new.id})
                return new
        raise Unavailable("too many processes are writing the ledger at once; try again")

    async def sign(self, org_id: UUID) -> Checkpoint | None:
        """Return a checkpoint of the newest entry, an existing or a new one; None for an empty ledger."""
        head = await self._ledger.head(org_id)
        newest = await self._store.newest(org_id)
        if newest is not None and newest.number >= head.number:
            return newest
        if head.number == 0:
            return None
        checkpoint = sign_checkpoint(await self.signing(org_id), head, self._now())
        if not await self._store.add(checkpoint, list(self.anchors())):
            return await self._store.newest(org_id)
        return checkpoint

    async def sign_due(self) -> int:
        """Sign for every organisation whose ledger has grown and whose checkpoint is older than the interval."""
        count = 0
        before = self._now() - self._interval
        for standing in await self._store.standings():
            is_old = standing.checkpoint_at is None or standing.checkpoint_at <= before
            if standing.entries > standing.checkpoint and is_old:
                count += await self.sign(standing.org_id) is not None
        return count

    async def bring(self) -> None:
        """Deliver due checkpoints to the anchors; a failed one is retried later, and stores the reason."""
        anchors = self.anchors()
        for checkpoint, state in await self._store.waiting(self._now(), AT_ONCE):
            anchor = anchors.get(state.anchor)
            attempts = state.attempts + 1
            try:
                if anchor is None:
                    raise Unavailable("this anchor is no longer configured")
                await anchor.put(checkpoint, format_line(checkpoint))
                now = self._now()
                tried = replace(state, attempts=attempts, done_at=now, error="")
            except PosternError as error:
                now = self._now()
                tried = replace(state, attempts=attempts, error=error.message)
                log.warning(
                    "checkpoint not delivered: number=%s anchor=%s error=%s", checkpoint.number, state.anchor, error
                )
            await self._store.mark(tried, now + min(_FIRST_PAUSE * 2 ** min(attempts - 1, 20), _LONGEST_PAUSE))

    async def signing(self, org_id: UUID) -> LedgerKey:
        """Return the current signing key; it is created at its first use."""
        keys = await self._keys.all(org_id)
        if not keys:
            await self._keys.add_first(new_key(org_id, self._now()))
            keys = await self._keys.all(org_id)
        if keys[0].id not in self._shown:
            self._shown.add(keys[0].id)
            log.info("signing key of the ledger: org=%s key=%s", org_id, keys[0].id)
        return keys[0]
