"""Hosts of applications: which label a name has, and which connection a host is for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.targets.connection import check_name
from postern.domain.targets.http_hosts import AppDomain, host_label
from postern.errors import Invalid, Misconfigured

NAMES = st.from_regex(r"[A-Za-z0-9_](?:[.-]?[A-Za-z0-9_]){2,63}", fullmatch=True)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("grafana", "grafana"),
        ("Grafana", "grafana"),
        ("team.grafana_2", "team-grafana-2"),
        ("_private_", "private"),
        ("a__b", "a-b"),
        ("xn__bcher-kva", "xn-bcher-kva"),  # no label that stands for other characters
        ("___", "x"),
        ("n" * 70, "n" * 63),
        ("n" * 62 + ".x", "n" * 62),
    ],
)
def test_label_of_a_name(name: str, label: str) -> None:
    assert host_label(name) == label


@given(NAMES)
def test_every_name_has_a_label_that_is_valid_in_dns_and_leads_back(name: str) -> None:
    try:
        check_name(name)
    except Invalid:
        return
    label = host_label(name)
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", label)
    assert label[2:4] != "--"
    assert host_label(label) == label
    domain = AppDomain("apps.example.com")
    assert domain.label_of(f"{domain.host_of(name)}:8443") == label


@pytest.mark.parametrize(
    ("authority", "label"),
    [
        ("grafana.apps.example.com", "grafana"),
        ("GRAFANA.Apps.Example.com:8443", "grafana"),
        ("grafana.apps.example.com.", "grafana"),
        ("grafana.apps.example.com.:443", "grafana"),
        ("apps.example.com", None),
        ("a.b.apps.example.com", None),
        ("grafanaapps.example.com", None),
        ("grafana.apps.example.com.evil.net", None),
        ("grafana.apps.example.com@evil.net", None),
        ("grafana.apps.example.com:8443:1", None),
        ("grafana.apps.example.com:x", None),
        (".apps.example.com", None),
        ("127.0.0.1:8443", None),
        ("[::1]:8443", None),
        ("", None),
    ],
)
def test_label_of_an_authority(authority: str, label: str | None) -> None:
    assert AppDomain("apps.example.com").label_of(authority) == label


@pytest.mark.parametrize(
    ("text", "domain", "url"),
    [
        ("localhost", AppDomain(), "https://team-app.localhost:7480"),
        ("Apps.Example.com", AppDomain("apps.example.com"), "https://team-app.apps.example.com:7480"),
        ("*.apps.example.com.", AppDomain("apps.example.com"), "https://team-app.apps.example.com:7480"),
        ("apps.example.com:443", AppDomain("apps.example.com", 443), "https://team-app.apps.example.com"),
        ("apps.example.com:8443", AppDomain("apps.example.com", 8443), "https://team-app.apps.example.com:8443"),
    ],
)
def test_domain_of_the_settings(text: str, domain: AppDomain, url: str) -> None:
    assert AppDomain.read(text) == domain
    assert domain.url_of("Team.App", "https", 7480) == url
    assert domain.wildcard == (None if domain.name == "localhost" else f"*.{domain.name}")


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "[::1]", "a b", "apps..com", "-a.com", "https://apps.com", "apps.com:0", "apps.com:x"]
)
def test_what_is_no_domain_is_said(text: str) -> None:
    with pytest.raises(Misconfigured, match="POSTERN_HTTPPROXY_DOMAIN"):
        AppDomain.read(text)
