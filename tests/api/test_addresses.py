"""Where a request comes from."""

from __future__ import annotations

import ipaddress

import pytest

from postern.api.client_address import client_address
from postern.errors import Misconfigured
from postern.settings import load

PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8:1::/48"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["1.1.1.1", "198.51.100.7,10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7:4711"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3"], "10.0.0.3"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("2001:db8:1::5", ["2001:db8:2::1"], "2001:db8:2::1"),
        ("unknown", ["198.51.100.7"], "unknown"),
    ],
)
def test_only_named_proxies_are_believed(peer: str, forwarded: list[str], client: str) -> None:
    assert client_address(peer, forwarded, PROXIES) == client


def test_proxies_come_from_the_settings() -> None:
    assert load({"POSTERN_TRUSTED_PROXIES": "10.0.0.0/8, 2001:db8:1::/48"}).proxies == PROXIES
    assert load({}).proxies == ()
    for wrong in ("x", "10.0.0.1/8", "10.0.0.0/33"):
        with pytest.raises(Misconfigured, match="TRUSTED_PROXIES"):
            _ = load({}, trusted_proxies=wrong).proxies
