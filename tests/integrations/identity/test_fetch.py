"""Requests to identity providers are limited, and never reach private addresses."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterator

import pytest
from tests.support.openid import OpenIdProvider, Reply, openid_provider

from postern.domain.addresses import check_resolved
from postern.errors import Invalid, Misconfigured, Unavailable
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.identity_addresses import checked_url, networks_of

DOCUMENT = "/.well-known/openid-configuration"


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with openid_provider("http://localhost/callback") as running:
        yield running


async def get(provider: OpenIdProvider, fetcher: ProviderFetcher | None = None, *, loopback: bool = True) -> bytes:
    return (await (fetcher or ProviderFetcher()).get(provider.issuer + DOCUMENT, loopback=loopback)).body


def resolver(*addresses: str) -> ProviderFetcher:
    async def resolve(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return ProviderFetcher(resolver=resolve, deadline=30)


async def test_provider_answer_is_fetched(provider: OpenIdProvider) -> None:
    assert provider.issuer.encode() in await get(provider)


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example/",
        "ftp://idp.example/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "//idp.example/",
        "",
        "https://",
        "https://user:password@idp.example/",
        "https://idp.example/#fragment",
        "https://idp.example/a b",
        "https://idp.example/\r\nX: y",
        "https://idp.example:99999/",
        "https://[::1/",
        "https://\N{FULLWIDTH LATIN SMALL LETTER I}dp.example/",
        "http://127.0.0.1.evil.example/",
    ],
)
async def test_invalid_provider_address_is_rejected(url: str) -> None:
    with pytest.raises(Invalid, match="address"):
        await ProviderFetcher().get(url, loopback=True)


async def test_plain_http_is_rejected_except_for_a_loopback_issuer(provider: OpenIdProvider) -> None:
    with pytest.raises(Invalid, match="https"):
        await get(provider, loopback=False)
    assert provider.asked == []


LOOPBACK = ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "2002:7f00:1::")
PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    "::1",
    "0.0.0.0",
    "::",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fc00::1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "255.255.255.255",
    "::ffff:169.254.169.254",
    "::ffff:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
]


@pytest.mark.parametrize("address", PRIVATE)
async def test_ssrf_name_with_a_private_address_is_rejected(address: str) -> None:
    """Case 68: discovery at 169.254.169.254 and similar addresses, under any name."""
    for answers in ((address,), ("93.184.216.34", address), (address, "93.184.216.34")):
        with pytest.raises(Unavailable, match="not public"):
            await resolver(*answers).get("https://idp.example/", loopback=False)


@pytest.mark.parametrize("address", [one for one in PRIVATE if one not in LOOPBACK])
async def test_ssrf_loopback_issuer_opens_only_loopback_addresses(address: str) -> None:
    """Case 68."""
    with pytest.raises(Unavailable, match="not public"):
        await resolver(address).get("https://localhost/", loopback=True)


async def test_ssrf_metadata_service_is_rejected_even_in_an_allowed_network() -> None:
    everything = networks_of("0.0.0.0/0, ::/0")
    for address in ("169.254.169.254", "fd00:ec2::254", "fe80::1", "100.100.100.200", "224.0.0.1"):
        with pytest.raises(Unavailable):
            check_resolved("it", [address], everything, "SETTING")
    check_resolved("it", ["10.1.2.3"], networks_of(" 10.0.0.0/8 ,fd12::/16"), "SETTING")
    check_resolved("it", ["93.184.216.34"], (), "SETTING")
    with pytest.raises(Misconfigured, match="POSTERN_PROVIDER_NETWORKS"):
        networks_of("10.0.0.0/8, home")


async def test_dns_rebinding_request_uses_the_checked_address(provider: OpenIdProvider) -> None:
    """Case 68: the name has another address the second time."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    asked: list[str] = []

    async def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    url = f"http://localhost:{provider.port}{DOCUMENT}"
    answer = await ProviderFetcher(resolver=resolve).get(url, loopback=True)
    assert answer.status == 200
    assert asked == ["localhost"]


async def test_redirect_of_a_provider_is_not_followed(provider: OpenIdProvider) -> None:
    """Case 67: neither to another host nor to the same one."""
    for target in ("http://169.254.169.254/latest/meta-data/", provider.issuer + "/jwks"):
        provider.replies[DOCUMENT] = lambda _, target=target: Reply(302, b"", {"Location": target})  # type: ignore[misc]
        with pytest.raises(Unavailable, match="redirect"):
            await get(provider)
    assert provider.asked == [DOCUMENT] * 2


async def test_oversized_provider_answer_is_rejected(provider: OpenIdProvider) -> None:
    provider.replies[DOCUMENT] = lambda _: Reply(200, b" " * 5_000_000)
    with pytest.raises(Unavailable, match="larger than 1048576 bytes"):
        await get(provider)


async def test_compressed_provider_answer_is_rejected(provider: OpenIdProvider) -> None:
    """A decompression bomb would be small on the wire."""
    bomb = gzip.compress(b" " * 50_000_000)
    provider.replies[DOCUMENT] = lambda _: Reply(200, bomb, {"Content-Encoding": "gzip"})
    with pytest.raises(Unavailable, match="compressed"):
        await get(provider)


async def test_slow_provider_answer_times_out(provider: OpenIdProvider) -> None:
    provider.before = lambda _: time.sleep(2)
    with pytest.raises(Unavailable, match=r"did not answer in 0\.3 seconds"):
        await get(provider, ProviderFetcher(deadline=0.3))


async def test_provider_answer_sent_byte_by_byte_times_out() -> None:
    async def trickle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            for _ in range(100):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(Unavailable, match="did not answer"):
        await ProviderFetcher(deadline=0.4).get(f"http://127.0.0.1:{port}/", loopback=True)
    server.close()


async def test_host_without_a_listener_or_address_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await ProviderFetcher().get("http://127.0.0.1:1/", loopback=True)
    with pytest.raises(Unavailable, match="has no address"):
        await resolver().get("https://idp.example/", loopback=False)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000])
async def test_provider_answer_that_is_not_a_json_object_is_unavailable(provider: OpenIdProvider, body: bytes) -> None:
    provider.replies[DOCUMENT] = lambda _: Reply(200, body)
    answer = await ProviderFetcher().get(provider.issuer + DOCUMENT, loopback=True)
    with pytest.raises(Unavailable, match="JSON"):
        answer.json()


def test_valid_provider_addresses_are_accepted() -> None:
    assert checked_url("https://idp.example:8443/realms/x?y=z", loopback=False).port == 8443
    assert checked_url("http://[::1]:80/", loopback=True).hostname == "::1"
