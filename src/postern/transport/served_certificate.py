"""The certificate that a process presents, which follows its files without a restart.

New handshakes get the newest pair of files that can be used; running connections are not touched. Each pair has a
context of its own: loading it into the old one could leave a mixture, since OpenSSL keeps a certificate for each type
of key. A server that holds one context gets one that passes each handshake on to the current one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from postern.errors import Misconfigured
from postern.transport.certificates import LoadedCertificate, TlsFiles

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class HostCertificate:
    """The certificate of all hosts below a domain."""

    domain: str
    served: ServedCertificate

    def choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        """Continue the handshake of a client that addresses one of the hosts with this certificate."""
        if name is not None and name.lower().endswith(f".{self.domain}"):
            connection.context = self.served.web_context()


class ServedCertificate:
    """`find` returns the files to serve, which can change, too. Make it in each process that listens. `hosts` is a
    certificate for all hosts below a domain, for web clients alone."""

    def __init__(
        self,
        find: Callable[[], TlsFiles],
        *,
        hosts: HostCertificate | None = None,
        look_every: float = LOOK_EVERY,
    ) -> None:
        """Raises Misconfigured if the files cannot be used."""
        self._hosts = hosts
        self._find = find
        self._look_every = look_every
        files = find()
        self._stamp = files.stamp()
        self.current: LoadedCertificate = files.load()
        self._problem = ""
        self._adapted: dict[str, tuple[LoadedCertificate, ssl.SSLContext]] = {}
        self._certified: tuple[LoadedCertificate, ssl.SSLContext] | None = None
        self._woken = asyncio.Event()
        self.changed = asyncio.Event()  # set for each new certificate; the waiting task clears it

    def wake(self, *_payload: object) -> None:
        """Look at the files soon."""
        self._woken.set()

    async def follow(self) -> None:
        """Follow the files until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._look_every):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()
            if await asyncio.to_thread(self.check):
                self.changed.set()

    def check(self) -> bool:
        """Load the files if they have changed; return whether there is a new certificate. If they cannot be used, the
        old one stays, and the log says why."""
        if self._hosts is not None:
            self._hosts.served.check()
        try:
            stamp = self._find().stamp()
            if stamp == self._stamp:
                return False
            loaded = self._load_usable()
        except Misconfigured as error:
            self._report(error.message)
            return False
        self._stamp, self._problem = stamp, ""
        if loaded.chain == self.current.chain and loaded.key == self.current.key:
            return False
        self.current = loaded
        log.info("a new certificate is served: %s", loaded.describe())
        return True

    def server_context(self) -> ssl.SSLContext:
        """Return a context for a server that keeps it: each handshake continues with the current one.

        Only for servers whose handshakes are those of Python's ssl: a library that uses OpenSSL itself (picows) crashes
        in this callback.
        """
        context = self._find().load().context

        def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self.current.context

        context.sni_callback = choose  # called for clients that send no name, too
        return context

    def certified_context(self, client_authority: str) -> ssl.SSLContext:
        """Return a context with the current certificate, for clients that must have a certificate of that authority
        (PEM). Raises Misconfigured if the files cannot be used, and no earlier ones could."""
        if self._certified is None or self._certified[0] is not self.current:
            try:
                loaded = self._find().load(client_authority)
            except Misconfigured as error:
                if self._certified is None:
                    raise
                self._report(error.message)
                return self._certified[1]
            self._certified = self.current, loaded.context
        return self._certified[1]

    def web_context(self) -> ssl.SSLContext:
        """Return a context with the current certificate, for clients of HTTP/2 and HTTP/1.1; see `adapted_context`."""

        def adapt(context: ssl.SSLContext) -> None:
            context.set_alpn_protocols(["h2", "http/1.1"])
            if self._hosts is not None:
                context.sni_callback = self._hosts.choose

        return self.adapted_context("web", adapt)

    def adapted_context(self, purpose: str, adapt: Callable[[ssl.SSLContext], None]) -> ssl.SSLContext:
        """Return a context with the current certificate, which `adapt` has made fit for a purpose. If the files cannot
        be used, that of earlier ones. Raises Misconfigured if there were none."""
        adapted = self._adapted.get(purpose)
        if adapted is None or adapted[0] is not self.current:
            try:
                context = self._find().load().context
            except Misconfigured as error:
                if adapted is None:
                    raise
                self._report(error.message)
                return adapted[1]
            adapt(context)
            adapted = self._adapted[purpose] = self.current, context
        return adapted[1]

    def _load_usable(self) -> LoadedCertificate:
        loaded, now = self._find().load(), datetime.now(UTC)
        if loaded.not_after <= now < self.current.not_after:
            raise Misconfigured(f"the new certificate has expired: {loaded.describe()}", field="tls_cert")
        return loaded

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            log.error("the new certificate is not used, and the old one stays: %s", problem)
        self._problem = problem
