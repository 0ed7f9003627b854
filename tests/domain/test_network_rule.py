"""Network rules: whom they are for, what they cover, and which addresses they allow."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.identity.networks import check_networks, contains
from postern.domain.identity.principal import Principal
from postern.domain.rules.network_rule import NetworkRule, find_denying_rule
from postern.domain.targets.connection import Connection, ConnectionType
from postern.errors import Invalid

ORG = uuid4()
SHOP = Connection(uuid4(), ORG, "shop", ConnectionType.DATABASE, "postgres", uuid4(), connection_tags={"stage": "prod"})
ANN = Principal(uuid4(), ORG, "ann", "ann@example.com", "Ann", frozenset({"dba"}))
RULE = NetworkRule(uuid4(), ORG, "office", allowed_networks=("192.0.2.0/24", "2001:db8::/32"))


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("192.0.2.1", True),
        ("192.0.2.255", True),
        ("192.0.3.0", False),
        ("::ffff:192.0.2.1", True),
        ("::ffff:192.0.3.1", False),
        ("2001:db8::1", True),
        ("2001:db8::1%eth0", True),
        ("2001:db9::1", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("", False),
        ("unknown", False),
        ("192.0.2.1, 10.0.0.1", False),
        ("192.0.2.1:5432", False),
        ("0xc0000201", False),
        ("192.0.2.01", False),
    ],
)
def test_only_addresses_in_the_networks_are_allowed(address: str, allowed: bool) -> None:
    assert (find_denying_rule([RULE], ANN, SHOP, address) is None) is allowed


@pytest.mark.parametrize(
    ("fields", "connection_denied", "gateway_denied"),
    [
        ({}, True, True),
        ({"enabled": False}, False, False),
        ({"groups": frozenset({"dba", "sre"})}, True, True),
        ({"groups": frozenset({"sre"})}, False, False),
        ({"connection_ids": frozenset({SHOP.id})}, True, False),
        ({"connection_ids": frozenset({uuid4()})}, False, False),
        ({"connection_tags": {"stage": "prod"}}, True, False),
        ({"connection_tags": {"stage": "prod", "team": "a"}}, False, False),
        ({"connection_ids": frozenset({uuid4()}), "connection_tags": {"stage": "prod"}}, True, False),
        ({"groups": frozenset({"sre"}), "connection_ids": frozenset({SHOP.id})}, False, False),
        ({"org_id": uuid4()}, False, False),
    ],
)
def test_rule_applies_to_its_groups_and_connections(
    fields: dict[str, Any], connection_denied: bool, gateway_denied: bool
) -> None:
    rule = replace(RULE, **fields)
    assert (find_denying_rule([rule], ANN, SHOP, "198.51.100.1") is not None) is connection_denied
    assert (find_denying_rule([rule], ANN, None, "198.51.100.1") is not None) is gateway_denied


def test_every_rule_that_applies_must_allow_the_address() -> None:
    other = replace(RULE, name="vpn", allowed_networks=("198.51.100.0/24",))
    assert find_denying_rule([RULE, other], ANN, SHOP, "192.0.2.1") is other
    assert find_denying_rule([RULE, other], ANN, SHOP, "198.51.100.1") is RULE
    wide = replace(other, allowed_networks=("198.51.100.0/24", "192.0.2.0/24"))
    assert find_denying_rule([RULE, wide], ANN, SHOP, "192.0.2.1") is None


@pytest.mark.parametrize(
    "text", ["", "office", "192.0.2.1/24", "192.0.2.0/33", "::ffff:192.0.2.0/120", "192.0.2.0/24 ", "192.0.2.0-9"]
)
def test_text_that_is_not_a_network_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="allowed_networks"):
        check_networks([text])


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_network_contains_its_own_addresses(address: IPv4Address, prefix: int) -> None:
    networks = check_networks([str(ip_network((address, prefix), strict=False))])
    assert contains(networks, str(address))
    assert contains(networks, f"::ffff:{address}")
