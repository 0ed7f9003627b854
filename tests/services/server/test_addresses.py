"""Where the gateway lets itself be sent to."""

from __future__ import annotations

import pytest

from postern.errors import Invalid
from postern.services.server.server_addresses import checked_url


@pytest.mark.parametrize(
    "url",
    [
        "https://login.example.com",
        "https://login.example.com:8443/realms/a?x=y",
        "https://10.0.0.5/",  # providers live inside of companies, too
        "http://localhost:9000/",
        "http://127.0.0.1:9000/",
        "http://[::1]:9000/",
    ],
)
def test_good_urls(url: str) -> None:
    assert checked_url(url, "issuer_url", "identity provider") == url


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest/meta-data/",
        "https://169.254.1.1/",
        "https://0xa9fea9fe/",
        "https://2852039166/",
        "https://0251.0376.0251.0376/",
        "https://169.254.43518/",
        "https://[::ffff:169.254.169.254]/",
        "https://[fe80::1]/",
        "https://[fe80::1%25eth0]/",
        "https://[fd00:ec2::254]/",
        "https://[2002:a9fe:a9fe::]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://100.100.100.200/",
        "https://metadata.google.internal/computeMetadata/v1/",
        "https://METADATA.google.internal./",
        "https://0.0.0.0/",
        "https://224.0.0.1/",
    ],
)
def test_attack_068_metadata_addresses_in_every_spelling(url: str) -> None:
    with pytest.raises(Invalid, match="metadata address, which is not allowed for the identity provider"):
        checked_url(url, "issuer_url", "identity provider")


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example.com",
        "http://10.0.0.5/",
        "http://127.0.0.1.example.com/",
        "http://localhost.example.com/",
        "ftp://login.example.com/",
        "file:///etc/passwd",
        "//login.example.com/",
        "login.example.com",
        "https://",
        "https://user@login.example.com/",
        "https://user:pass@login.example.com/",
        "https://login.example.com/#fragment",
        "https://login.example.com\\@127.0.0.1/",
        "https://login.example.com/\r\nHost: x",
        "https://login.example.com:port/",
        "https://[::1/",
        "https://login.example.com/" + "x" * 2000,
        "",
    ],
)
def test_what_is_no_url_of_a_provider(url: str) -> None:
    with pytest.raises(Invalid, match="issuer_url: "):
        checked_url(url, "issuer_url", "identity provider")
