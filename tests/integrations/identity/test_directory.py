"""Metadata and keys that an identity provider publishes, honest or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.openid import OpenIdProvider, Reply, json_reply, openid_provider
from tests.support.world import FakeClock

from postern.errors import Invalid, Unavailable
from postern.integrations.identity.directory import Directory
from postern.integrations.identity.fetch import ProviderFetcher

DOCUMENT = "/.well-known/openid-configuration"


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with openid_provider("http://localhost/callback") as running:
        yield running


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def directory(clock: FakeClock) -> Directory:
    return Directory(ProviderFetcher(), clock)


def changed(**values: Any) -> Callable[[Reply], Reply]:
    """The provider's document, with other values; None takes one out."""

    def change(reply: Reply) -> Reply:
        document = json.loads(reply.body) | values
        return json_reply({name: value for name, value in document.items() if value is not None})

    return change


async def test_provider_metadata_is_fetched_once_in_ten_minutes(
    provider: OpenIdProvider, directory: Directory, clock: FakeClock
) -> None:
    for minutes in (0, 9, 2):
        clock.forward(minutes=minutes)
        assert (await directory.metadata(provider.issuer)).token_endpoint == f"{provider.issuer}/token"
    assert provider.asked == [DOCUMENT] * 2


async def test_metadata_of_another_issuer_is_rejected(provider: OpenIdProvider, directory: Directory) -> None:
    for issuer in ("https://evil.example", provider.issuer + "/", None, 7):
        provider.replies[DOCUMENT] = changed(issuer=issuer)
        with pytest.raises(Unavailable, match="issuer_url must be exactly the same"):
            await directory.metadata(provider.issuer)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"authorization_endpoint": None}, "no authorization_endpoint"),
        ({"token_endpoint": 7}, "no token_endpoint"),
        ({"jwks_uri": "http://idp.example/jwks"}, "jwks_uri"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri"),
        ({"token_endpoint": "https://user@idp.example/"}, "token_endpoint"),
        ({"userinfo_endpoint": "gopher://x/"}, "userinfo_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "client_secret_basic"),
    ],
)
async def test_invalid_metadata_is_rejected(
    provider: OpenIdProvider, directory: Directory, values: dict[str, Any], says: str
) -> None:
    provider.replies[DOCUMENT] = changed(**values)
    with pytest.raises(Unavailable, match=says):
        await directory.metadata(provider.issuer)


async def test_ssrf_private_endpoint_in_the_metadata_is_rejected(
    provider: OpenIdProvider, directory: Directory
) -> None:
    """Case 68: the address of the document is honest, an address in it is not."""
    provider.replies[DOCUMENT] = changed(jwks_uri="https://169.254.169.254/latest/meta-data/")
    with pytest.raises(Unavailable, match="not public"):
        await directory.keys(provider.issuer, None)


async def test_invalid_issuer_is_rejected(directory: Directory) -> None:
    for issuer in ("", "idp.example", "http://idp.example", "https://idp.example/#x"):
        with pytest.raises(Invalid):
            await directory.metadata(issuer)


async def test_error_answers_of_a_provider_are_unavailable(provider: OpenIdProvider, directory: Directory) -> None:
    provider.replies[DOCUMENT] = lambda _: Reply(404, b"{}")
    with pytest.raises(Unavailable, match="404"):
        await directory.metadata(provider.issuer)
    del provider.replies[DOCUMENT]
    for reply in (Reply(500, b""), json_reply({"keys": 7}), json_reply({})):
        provider.replies["/jwks"] = lambda _, reply=reply: reply  # type: ignore[misc]
        with pytest.raises(Unavailable, match="key"):
            await directory.keys(provider.issuer, "key-0")


async def test_unknown_key_is_looked_up_once_in_ten_seconds(
    provider: OpenIdProvider, directory: Directory, clock: FakeClock
) -> None:
    assert len(await directory.keys(provider.issuer, "key-0")) == 1
    provider.rotate()
    for _ in range(5):
        assert await directory.keys(provider.issuer, "key-1") == []
    assert provider.asked.count("/jwks") == 1
    clock.forward(seconds=10)
    assert len(await directory.keys(provider.issuer, "key-1")) == 1
    assert await directory.keys(provider.issuer, "key-0") == []  # one that is gone is believed no more
    assert provider.asked.count("/jwks") == 2


async def test_weak_and_invalid_keys_are_skipped(provider: OpenIdProvider, directory: Directory) -> None:
    good = provider.provider.jwks["keys"][0]
    weak = {
        "kty": "RSA",
        "n": "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0_IzW7yWR7QkrmBL7jTK",
        "e": "AQAB",
    }
    odd: list[object] = [
        {"kty": "oct", "k": "c2VjcmV0"},
        {**good, "kid": "enc", "use": "enc"},
        {**good, "kid": "broken", "n": 7},
        {"kty": "XYZ"},
        {**weak, "kid": "weak"},
        "no key",
        None,
        [],
    ]
    provider.replies["/jwks"] = lambda _: json_reply({"keys": [*odd, good]})
    assert [key.get("kid") for key in await directory.keys(provider.issuer, None)] == ["key-0"]
