"""The one rule about addresses that others choose, and that each integration asks it."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from postern.domain.addresses import check_resolved, check_saved, is_forbidden, parse_host
from postern.domain.issues.issue import TrackerKind, TrackerSettings
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.integrations.git.git_places import place_of
from postern.integrations.git.messages import RepositoryPolicy
from postern.integrations.trackers.trackers import tracker_of

SOURCE = Path(__file__).resolve().parents[2] / "src" / "postern"
# Any spelling that a resolver reads as an address.
NEVER = [
    *("169.254.169.254", "0xa9fea9fe", "2852039166", "169.254.43518", "0251.0376.0251.0376", "169.254.170.2"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1", "0.0.0.0", "0"),
    *("metadata.google.internal", "metadata.google.internal."),
]
NEVER_6 = ["fe80::1", "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "::", "ff02::1"]
PRIVATE = ["127.0.0.1", "127.1", "localhost", "LOCALHOST", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1"]
PRIVATE_6 = ["::1", "fc00::1", "::ffff:10.0.0.1", "2002:7f00:1::"]
PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "git.example.com", "1.example"]
ALL = (ip_network("0.0.0.0/0"), ip_network("::/0"))
Save = Callable[[str, tuple[str, ...]], object]


def save_git(host: str, allowed: tuple[str, ...]) -> object:
    return place_of(f"https://{host}/a/b", RepositoryPolicy(networks=allowed))


def save_git_by_ssh(host: str, allowed: tuple[str, ...]) -> object:
    return place_of(f"ssh://git@{host}/a/b", RepositoryPolicy(networks=allowed))


def tracker(kind: TrackerKind) -> Save:
    def save(host: str, allowed: tuple[str, ...]) -> object:
        settings = TrackerSettings(kind, f"https://{host}", "ann@example.com", Secret("token"))
        return tracker_of(settings, tuple(ip_network(text) for text in allowed))

    return save


SAVED: dict[str, tuple[Save, str]] = {
    "git": (save_git, "POSTERN_RUNBOOK_NETWORKS"),
    "git by ssh": (save_git_by_ssh, "POSTERN_RUNBOOK_NETWORKS"),
    **{str(kind): (tracker(kind), "POSTERN_TRACKER_NETWORKS") for kind in TrackerKind},
}


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@pytest.mark.parametrize("kind", SAVED)
def test_every_integration_refuses_addresses_by_the_same_rule_when_they_are_saved(kind: str) -> None:
    save, setting = SAVED[kind]
    for host in (*NEVER, *NEVER_6):
        for allowed in ((), ("0.0.0.0/0", "::/0")):
            with pytest.raises(Invalid, match=r"never contacted|the host in the address"):
                save(bracketed(host), allowed)
    for host in (*PRIVATE, *PRIVATE_6):
        with pytest.raises(Invalid, match=setting):
            save(bracketed(host), ())
        save(bracketed(host), ("0.0.0.0/0", "::/0"))
    for host in PUBLIC:
        save(bracketed(host), ())


@pytest.mark.parametrize("host", [*NEVER, *NEVER_6])
def test_what_is_never_asked_is_refused_also_in_an_allowed_network(host: str) -> None:
    assert is_forbidden(host)
    with pytest.raises(Invalid, match="never contacted") as raised:
        check_saved(host, ALL, "SETTING", "url")
    assert raised.value.field == "url"
    address = parse_host(host)
    if address is not None:
        with pytest.raises(Unavailable, match="SETTING"):
            check_resolved("it", ["93.184.216.34", str(address)], ALL, "SETTING")


@pytest.mark.parametrize("host", [*PRIVATE, *PRIVATE_6])
def test_private_address_needs_a_setting_that_names_its_network(host: str) -> None:
    address = str(parse_host(host))
    for allowed in ((), (ip_network("203.0.113.0/24"),)):
        with pytest.raises(Invalid, match="SETTING"):
            check_saved(host, allowed, "SETTING", "url")
        with pytest.raises(Unavailable, match="SETTING"):
            check_resolved("it", [address], allowed, "SETTING")
    check_saved(host, ALL, "SETTING", "url")
    check_resolved("it", [address], ALL, "SETTING")


def test_this_machine_is_asked_where_it_is_meant_and_its_network_is_not() -> None:
    check_resolved("it", ["127.0.0.1", "::1"], (), "SETTING", loopback=True)
    for address in ("10.1.2.3", "169.254.169.254"):
        with pytest.raises(Unavailable):
            check_resolved("it", [address], (), "SETTING", loopback=True)


def test_name_without_an_address_is_refused() -> None:
    with pytest.raises(Unavailable, match="has no address"):
        check_resolved("it", [], ALL, "SETTING")


def test_no_other_module_decides_what_kind_of_address_something_is() -> None:
    """A second rule would drift away from this one."""
    decides = re.compile(r"\.is_(link_local|private|global|reserved|unspecified)\b")
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if decides.search(path.read_text())}
    assert found == {"domain/addresses.py"}
