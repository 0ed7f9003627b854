"""A throttle on authentication attempts, per account and per address."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from postern.domain.identity.names import fold_name
from postern.errors import TooMany, Unavailable
from postern.services.identity.logins.passwords import Throttle
from postern.store.ports.common_ports import Clock

_WINDOW = timedelta(minutes=15)


class LoginThrottle:
    """Few attempts for one account from one address; more for all accounts from one address, and for one account from
    all addresses, so that a stranger cannot easily lock a user out."""

    def __init__(self, now: Clock) -> None:
        self._both = Throttle(now, failures=10, window=_WINDOW)
        self._address = Throttle(now, failures=50, window=_WINDOW)
        self._account = Throttle(now, failures=100, window=_WINDOW)

    @contextmanager
    def attempt(self, account: str, address: str) -> Iterator[None]:
        """Count an attempt around the work.

        It counts as a failure before the work is done, so that concurrent attempts do not all pass. Success removes it,
        and so do TooMany and Unavailable, which are not the user's fault. Raises TooMany.
        """
        account, address = (fold_name(account) or account.casefold())[:320], neighbourhood(address)
        counted = ((self._both, f"{account} {address}"), (self._address, address), (self._account, account))
        for throttle, key in counted:
            throttle.check(key)
        for throttle, key in counted:
            throttle.fail(key)
        try:
            yield
        except (TooMany, Unavailable):
            _undo(counted)
            raise
        _undo(counted)


def _undo(counted: tuple[tuple[Throttle, str], ...]) -> None:
    for throttle, key in counted:
        throttle.undo(key)


@functools.lru_cache(maxsize=4096)
def neighbourhood(address: str) -> str:
    """Return the network by which an address counts: of IPv6 the /64, which is what one subscriber has (RFC 6177)."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
