"""The background job that renews the gateway's certificate, in one process: Postern's own, or that of an ACME server.
Other processes notice the new files."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from postern.errors import Misconfigured, PosternError, Unavailable
from postern.integrations.acme.acme_challenges import answering, challenge_listener
from postern.integrations.acme.acme_order import make_account_key, order
from postern.integrations.acme.acme_renewal import read_state, renewal_time, state_after_success, write_state
from postern.settings import Settings
from postern.store.ports.common_ports import Signals, Topic
from postern.transport.certificates import TlsFiles, write_private
from postern.wiring import paths, tls

log = logging.getLogger(__name__)

EVERY = 60.0  # seconds between two looks
LONGEST = 600.0  # seconds of one


class CertificateRenewal:
    """`woken` is set when an administrator asks for a look at once."""

    def __init__(self, settings: Settings, signals: Signals, now: Callable[[], datetime]) -> None:
        """Raises Misconfigured."""
        tls.check_source(settings)
        self._settings = settings
        self._signals = signals
        self._now = now
        self._ordering = threading.Lock()  # a thread continues when its round is cut off
        self._is_asked = False
        self.woken = asyncio.Event()
        signals.subscribe(Topic.CERTIFICATES_CHANGED, self._wake)

    async def once(self) -> bool:
        """Renew the certificate if that is due. Return whether there is a new one."""
        is_asked, self._is_asked = self._is_asked, False
        if self._settings.tls_cert:
            return False
        if self._settings.acme_directory:
            is_new = await self._renew_by_acme(is_asked=is_asked)
        else:
            is_new = await asyncio.to_thread(self._renew_own)
        if is_new:
            await self._signals.publish(Topic.CERTIFICATES_CHANGED)
            self._is_asked = False
            self.woken.clear()
        return is_new

    def _wake(self, _payload: object) -> None:
        self._is_asked = True
        self.woken.set()

    def _renew_own(self) -> bool:
        try:
            before = tls.own_files(self._settings).stamp()
        except Misconfigured:  # a file is missing
            before = ()
        return tls.ensure_own(self._settings, keep_authority=True).stamp() != before

    async def _renew_by_acme(self, *, is_asked: bool) -> bool:
        state_file = paths.acme_state(self._settings.home)
        state = await asyncio.to_thread(read_state, state_file)
        if not await asyncio.to_thread(self._is_due) or (self._now() < state.next_at and not is_asked):
            return False
        folder = paths.acme_challenges(self._settings.home)
        try:
            async with challenge_listener(folder, self._settings.host, self._settings.acme_http_port):
                await asyncio.to_thread(self._order, folder)
        except PosternError as error:
            failed = state.after_failure(error.message, self._now())
            await asyncio.to_thread(write_state, state_file, failed)
            log.error("%s; the next attempt is at %s UTC", error.message, f"{failed.next_at:%Y-%m-%d %H:%M}")
            return False
        await asyncio.to_thread(write_state, state_file, state_after_success(self._now()))
        return True

    def _is_due(self) -> bool:
        files = tls.acme_files(self._settings)
        try:
            loaded = files.load()
        except Misconfigured:
            return True  # there is none, or it cannot be used
        if not set(tls.acme_request(self._settings).names) <= set(loaded.names):
            return True
        return self._now() >= renewal_time(loaded.not_before, loaded.not_after, loaded.der)

    def _order(self, challenges: Path) -> None:
        """Order a certificate and store it. Raises Misconfigured, Unavailable."""
        if not self._ordering.acquire(blocking=False):
            raise Unavailable("the previous order at the ACME server has not ended yet")
        try:
            file = tls.acme_files(self._settings).certificate
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            request = tls.acme_request(self._settings)
            issued = order(request, _account_key(file.parent), functools.partial(answering, challenges))
            draft = file.with_name("new.pem")
            write_private(draft, issued.chain + issued.key)
            log.info("the ACME server issued a certificate: %s", TlsFiles(draft, draft, draft).load().describe())
            draft.replace(file)
        finally:
            self._ordering.release()


def _account_key(folder: Path) -> bytes:
    file = folder / "account.key"
    try:
        return file.read_bytes()
    except FileNotFoundError:
        key = make_account_key()
        write_private(file, key)
        return key
