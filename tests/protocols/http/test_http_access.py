"""The secrets of an HTTP connection."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.http_target_links import http_order, resolved

from postern.errors import Unavailable
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.target.http_access import HttpAccess, read_access, read_headers
from postern.protocols.http.target.request_signer import header_signer


def access(secrets: Mapping[str, str]) -> HttpAccess:
    return read_access(http_order(), resolved(secrets))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://app.internal", ("http", "app.internal", 80, "app.internal", "")),
        ("https://app.internal", ("https", "app.internal", 443, "app.internal", "")),
        ("https://app.internal:443/", ("https", "app.internal", 443, "app.internal", "")),
        ("http://app.internal:443", ("http", "app.internal", 443, "app.internal:443", "")),
        (" HTTPS://App.Internal:8443 ", ("https", "app.internal", 8443, "app.internal:8443", "")),
        ("http://10.0.0.5:3000/api/v2/", ("http", "10.0.0.5", 3000, "10.0.0.5:3000", "/api/v2")),
        ("http://[2001:db8::1]:3000", ("http", "2001:db8::1", 3000, "[2001:db8::1]:3000", "")),
        ("http://my_service", ("http", "my_service", 80, "my_service", "")),
        ("https://bücher.example", ("https", "xn--bcher-kva.example", 443, "xn--bcher-kva.example", "")),
    ],
)
def test_remote_url(url: str, expected: tuple[str, str, int, str, str]) -> None:
    read = access({"REMOTE_URL": url})
    assert (read.scheme, read.host, read.port, read.authority, read.base_path) == expected
    assert str(read.origin) == f"{read.scheme}://{read.authority}"


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ({}, "has no secret 'envvar:REMOTE_URL'"),
        ({"REMOTE_URL": "app.internal"}, "must begin with http:// or https://"),
        ({"REMOTE_URL": "ftp://app.internal"}, "must begin with http:// or https://"),
        ({"REMOTE_URL": "http://"}, "name a host"),
        ({"REMOTE_URL": "http://a:99999"}, "is not a URL"),
        ({"REMOTE_URL": "http://a:0"}, "port 0"),
        ({"REMOTE_URL": "http://[::1"}, "is not a URL"),
        ({"REMOTE_URL": "http://ada:hunter2@a"}, "must not contain a user name or password"),
        ({"REMOTE_URL": "http://a/?b=c"}, "must not contain a query"),
        ({"REMOTE_URL": "http://a/#b"}, "must not contain a query"),
        ({"REMOTE_URL": "http://a/b c"}, "the path in REMOTE_URL is not valid"),
        ({"REMOTE_URL": "http://a/b/../c"}, "the path in REMOTE_URL is not valid"),
        ({"REMOTE_URL": "http://a//b"}, "the path in REMOTE_URL is not valid"),
        ({"REMOTE_URL": "http://a b"}, "not a valid name"),
        ({"REMOTE_URL": "http://a", "SSLMODE": "verify-full"}, "use https://"),
        ({"REMOTE_URL": "https://a", "SSLMODE": "prefer"}, "must be one of verify-full, verify-ca, require"),
        ({"REMOTE_URL": "https://a", "INSECURE": "maybe"}, "must be true or false"),
        ({"REMOTE_URL": "https://a", "INSECURE": "true", "SSLMODE": "verify-full"}, "contradict"),
        ({"REMOTE_URL": "https://a", "HTTP_VERSION": "3"}, "must be one of 1.1, 2"),
        ({"REMOTE_URL": "http://a", "HEADER_": "x"}, "names no header"),
        ({"REMOTE_URL": "http://a", "HEADER_CONNECTION": "x"}, "writes itself"),
        ({"REMOTE_URL": "http://a", "HEADER_CONTENT_LENGTH": "5"}, "writes itself"),
        ({"REMOTE_URL": "http://a", "HEADER_X": "hunter2\r\nY: z"}, "a line break"),
        ({"REMOTE_URL": "http://a", "HEADER_HOST": "a/b"}, "HEADER_HOST must be a host"),
        ({"REMOTE_URL": "http://a", "HEADER_HOST": "a:0"}, "no valid host and port"),
        ({"REMOTE_URL": "http://a", "HEADER_X_FORWARDED_PROTO": "ftp"}, "must be http or https"),
        ({"REMOTE_URL": "http://a", "HEADER_X_FORWARDED_HOST": "a b"}, "must be a host"),
    ],
)
def test_wrong_secrets_are_named_without_their_value(secrets: Mapping[str, str], message: str) -> None:
    with pytest.raises(Unavailable) as error:
        access(secrets)
    assert message in error.value.message
    assert error.value.message.startswith("connection 'wiki'")
    assert "hunter2" not in error.value.message


@pytest.mark.parametrize(
    ("secrets", "mode"),
    [
        ({}, "verify-full"),
        ({"SSLMODE": "verify-ca"}, "verify-ca"),
        ({"SSLMODE": "require"}, "require"),
        ({"INSECURE": "true"}, "require"),
        ({"INSECURE": "TRUE", "SSLMODE": "require"}, "require"),
        ({"INSECURE": "false"}, "verify-full"),
    ],
)
def test_certificates_are_verified_unless_told_otherwise(secrets: Mapping[str, str], mode: str) -> None:
    assert access({"REMOTE_URL": "https://a", **secrets}).sslmode == mode


@pytest.mark.parametrize(
    ("url", "version", "versions"),
    [
        ("https://a", "", ("h2", "http/1.1")),
        ("https://a", "1.1", ("http/1.1",)),
        ("https://a", "2", ("h2",)),
        ("http://a", "", ("http/1.1",)),
        ("http://a", "2", ("h2",)),
    ],
)
def test_versions(url: str, version: str, versions: tuple[str, ...]) -> None:
    assert access({"REMOTE_URL": url, "HTTP_VERSION": version}).versions == versions


@pytest.mark.parametrize(
    ("secrets", "authority", "origin"),
    [
        ({"HEADER_HOST": "wiki.example"}, "wiki.example", "https://wiki.example"),
        ({"HEADER_HOST": "wiki.example:8080"}, "wiki.example:8080", "https://wiki.example:8080"),
        ({"HEADER_X_FORWARDED_PROTO": "http"}, "10.0.0.5", "http://10.0.0.5"),
        ({"HEADER_X_FORWARDED_HOST": "wiki.example"}, "10.0.0.5", "https://wiki.example"),
        (
            {"HEADER_HOST": "a", "HEADER_X_FORWARDED_HOST": "b", "HEADER_X_FORWARDED_PROTO": "http"},
            "a",
            "http://b",
        ),
    ],
)
def test_the_application_can_be_told_another_origin(secrets: Mapping[str, str], authority: str, origin: str) -> None:
    read = access({"REMOTE_URL": "https://10.0.0.5", **secrets})
    assert (read.host, read.authority, str(read.origin)) == ("10.0.0.5", authority, origin)


def test_header_secrets_replace_the_clients() -> None:
    secrets = {
        "REMOTE_URL": "http://a",
        "HEADER_AUTHORIZATION": "Bearer abc",
        "HEADER_X_API_KEY": " k\u00e9y ",
        "HEADER_HOST": "b",
        "OTHER": "x",
    }
    expected = ((b"authorization", b"Bearer abc"), (b"x-api-key", "k\u00e9y".encode()))
    assert read_headers(http_order(), resolved(secrets)) == expected
    signer = header_signer(http_order(), resolved(secrets))
    mine = (
        (b"x-api-key", b"forged"),
        (b"x_api_key", b"forged"),
        (b"accept", b"*/*"),
        (b"authorization", b"Basic x"),
        (b"x-api-key", b"again"),
    )
    assert signer.sign(RequestHead("GET", "/", "a", mine)).headers == ((b"accept", b"*/*"), *expected)


def test_without_header_secrets_a_request_is_not_changed() -> None:
    head = RequestHead("GET", "/", "a", ((b"authorization", b"mine"),))
    assert header_signer(http_order(), resolved({})).sign(head) is head
