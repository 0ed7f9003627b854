"""What changes in heads between the client's origin and the target's. Complaints about other proxies are cases here."""

from __future__ import annotations

import pytest

from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.http_rewriting import HttpOrigin, HttpRewriting

CLIENT, TARGET = "https://app.gateway.example", "http://app.internal:3000"
LOCAL = "http://127.0.0.1:4000"


def request(rewriting: HttpRewriting, *headers: tuple[bytes, bytes]) -> RequestHead:
    return rewriting.request(RequestHead("GET", "/path?q=1", "app.gateway.example", headers))


def sent(client: str, target: str, name: bytes, value: bytes) -> list[bytes]:
    head = request(HttpRewriting(client, target), (name, value))
    return [text for key, text in head.headers if key == name]


def received(client: str, target: str, name: bytes, value: bytes) -> bytes | None:
    """Return the header as the client gets it; None if it was dropped."""
    head = HttpRewriting(client, target).response(ResponseHead(200, ((name, value),)))
    return head.headers[0][1] if head.headers else None


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("origin", "https://app.gateway.example", "http://app.internal:3000"),
        ("origin", "https://app.gateway.example:443", "http://app.internal:3000"),
        ("origin", "HTTPS://App.Gateway.Example", "http://app.internal:3000"),
        # another scheme is another origin: whoever can write http answers must not be taken for the application
        ("origin", "http://app.gateway.example", "http://app.gateway.example"),
        ("origin", "https://evil.example", "https://evil.example"),
        ("origin", "https://app.gateway.example.evil.example", "https://app.gateway.example.evil.example"),
        ("origin", "https://app.gateway.example:8443", "https://app.gateway.example:8443"),
        ("origin", "https://app.gateway.example@evil.example", "https://app.gateway.example@evil.example"),
        ("origin", "null", "null"),
        ("referer", "https://app.gateway.example", "http://app.internal:3000"),
        ("referer", "https://app.gateway.example/a?b=https://app.gateway.example/", None),
        ("referer", "https://elsewhere.example/?https://app.gateway.example/", ""),
        ("destination", "https://app.gateway.example/dav/new", "http://app.internal:3000/dav/new"),
        ("destination", "/dav/new", ""),
        ("cookie", "a=1; b=2", ""),
        ("accept", "text/html", ""),
        ("sec-fetch-site", "same-origin", ""),
    ],
)
def test_request_headers_name_the_target(name: str, value: str, expected: str | None) -> None:
    if expected is None:  # only the first origin is the client's
        expected = value.replace("https://app.gateway.example", "http://app.internal:3000", 1)
    assert sent(CLIENT, TARGET, name.encode(), value.encode()) == [(expected or value).encode()]


def test_host_becomes_the_targets_and_the_path_stays() -> None:
    head = request(HttpRewriting(CLIENT, TARGET))
    assert (head.authority, head.target, head.method) == ("app.internal:3000", "/path?q=1", "GET")
    assert request(HttpRewriting(CLIENT, "https://app.internal:443")).authority == "app.internal"
    assert request(HttpRewriting(CLIENT, "http://[2001:DB8::1]:81")).authority == "[2001:db8::1]:81"


def test_forwarded_headers_of_clients_are_replaced() -> None:
    rewriting = HttpRewriting(CLIENT, TARGET, client_address="2001:db8::7")
    forged = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix"]
    forged += ("x_forwarded_host", "x_real_ip", "x-script-name", "script_name", "path_info")
    forged += ("transfer_encoding", "content_length", "http2_settings", "postern_authorization")
    forged += ("x-forwarded-port", "x-real-ip", "x-original-url", "x-rewrite-url", "true-client-ip", "x-original-host")
    head = request(rewriting, *((name.encode(), b"forged") for name in forged), (b"x-own", b"stays"))
    assert dict(head.headers) == {
        b"x-own": b"stays",
        b"x-forwarded-for": b"2001:db8::7",
        b"x-forwarded-host": b"app.internal:3000",
        b"x-forwarded-proto": b"http",
    }
    assert len(head.headers) == 4


def test_without_an_address_no_client_is_named() -> None:
    assert b"x-forwarded-for" not in dict(request(HttpRewriting(CLIENT, TARGET)).headers)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("location", "http://app.internal:3000/login", "https://app.gateway.example/login"),
        ("location", "http://app.internal:3000", "https://app.gateway.example"),
        ("location", "HTTP://APP.internal:3000?a", "https://app.gateway.example?a"),
        ("location", "https://app.internal:3000/tls", "https://app.gateway.example/tls"),
        ("location", "//app.internal:3000/login", "//app.gateway.example/login"),
        ("location", "/login?next=http://app.internal:3000/", None),
        ("location", "login", None),
        ("location", "", None),
        ("location", "http://app.internal/", None),  # another port is another service
        ("location", "http://app.internal:30001/", None),
        ("location", "http://app.internal:3000.evil.example/", None),
        ("location", "http://app.internal:3000@evil.example/", None),
        ("location", "http://idp.example/?redirect_uri=http://app.internal:3000/", None),
        ("content-location", "http://app.internal:3000/item/1", "https://app.gateway.example/item/1"),
        ("refresh", "5; url=http://app.internal:3000/next", "5; url=https://app.gateway.example/next"),
        ("refresh", "0;URL='http://app.internal:3000/next'", "0;URL='https://app.gateway.example/next'"),
        ("refresh", "5", None),
        (
            "link",
            '<http://app.internal:3000/?page=2>; rel="next", <http://app.internal:3000/?page=9>; rel="last"',
            '<https://app.gateway.example/?page=2>; rel="next", <https://app.gateway.example/?page=9>; rel="last"',
        ),
        (  # a registry of container images says where tokens are
            "www-authenticate",
            'Bearer realm="http://app.internal:3000/token",service="registry"',
            'Bearer realm="https://app.gateway.example/token",service="registry"',
        ),
        ("www-authenticate", 'Basic realm="app.internal:3000"', None),
        ("hx-redirect", "http://app.internal:3000/next", "https://app.gateway.example/next"),
        ("link", "</style.css>; rel=preload, <ftp://app.internal:3000/>", None),
        ("access-control-allow-origin", "http://app.internal:3000", "https://app.gateway.example"),
        ("access-control-allow-origin", "https://other.example", None),
        ("access-control-allow-origin", "*", None),
        ("access-control-allow-origin", "null", None),
        ("content-security-policy", "default-src 'self'; img-src * data:", None),
        (
            "content-security-policy",
            "connect-src 'self' http://app.internal:3000/api ws://app.internal:3000 https://cdn.example",
            "connect-src 'self' https://app.gateway.example/api wss://app.gateway.example https://cdn.example",
        ),
        ("content-security-policy-report-only", "img-src http://app.internal:3000", "img-src https://app.gateway.example"),
        ("content-security-policy", "frame-src app.internal:3000;", "frame-src app.gateway.example;"),
        ("content-security-policy", "img-src app.internal:3000.evil.example", None),
        ("content-security-policy", "upgrade-insecure-requests", None),
        ("strict-transport-security", "max-age=1", None),
        ("content-type", "text/html; http://app.internal:3000/", None),
        ("etag", '"x"', None),
    ],
)  # fmt: skip
def test_response_headers_name_the_clients_origin(name: str, value: str, expected: str | None) -> None:
    expected = value if expected is None else expected
    assert received(CLIENT, TARGET, name.encode(), value.encode()) == expected.encode()


def test_alternative_services_are_never_offered() -> None:
    assert received(CLIENT, TARGET, b"alt-svc", b'h3=":443"; ma=86400') is None


@pytest.mark.parametrize(
    ("target", "location", "is_same"),
    [
        ("https://app.internal", "http://app.internal/x", True),  # it does not know that a proxy ends TLS
        ("https://app.internal", "http://app.internal:80/x", True),
        ("https://app.internal", "https://app.internal:443/x", True),
        ("http://app.internal", "https://app.internal/x", True),
        ("https://app.internal", "http://app.internal:443/x", False),
        ("https://app.internal", "https://app.internal:8443/x", False),
        ("https://app.internal:8443", "https://app.internal/x", False),
        ("http://[2001:db8::1]:81", "http://[2001:db8::1]:81/x", True),
    ],
)
def test_links_with_the_other_scheme_are_the_same_application(target: str, location: str, is_same: bool) -> None:
    expected = f"{CLIENT}/x" if is_same else location
    assert received(CLIENT, target, b"location", location.encode()) == expected.encode()


def test_an_allowed_origin_with_the_other_scheme_is_another_one() -> None:
    value = b"http://app.internal"
    assert received(CLIENT, "https://app.internal", b"access-control-allow-origin", value) == value


@pytest.mark.parametrize(
    ("value", "with_tls", "without_tls"),
    [
        ("a=1", "a=1", "a=1"),
        ("a=1; Path=/; HttpOnly", "a=1; Path=/; HttpOnly", "a=1; Path=/; HttpOnly"),
        ("a=1; Domain=app.internal; Path=/", "a=1; Path=/", "a=1; Path=/"),
        ("a=1; domain=.internal;secure", "a=1;secure", "a=1"),
        ("a=1; Secure; SameSite=None", "a=1; Secure; SameSite=None", "a=1; SameSite=Lax"),
        ("a=1; Secure; SameSite=Strict", "a=1; Secure; SameSite=Strict", "a=1; SameSite=Strict"),
        ("a=1; Secure; Partitioned", "a=1; Secure; Partitioned", "a=1"),
        ("secure=domain; Path=/", "secure=domain; Path=/", "secure=domain; Path=/"),
        ("__Host-id=1; Secure; Path=/", "__Host-id=1; Secure; Path=/", "postern__Host-id=1; Path=/"),
        ("__Secure-id=1; Secure", "__Secure-id=1; Secure", "postern__Secure-id=1"),
    ],
)
def test_cookies_fit_the_clients_origin(value: str, with_tls: str, without_tls: str) -> None:
    assert received(CLIENT, TARGET, b"set-cookie", value.encode()) == with_tls.encode()
    assert received(LOCAL, TARGET, b"set-cookie", value.encode()) == without_tls.encode()


@pytest.mark.parametrize(
    ("cookies", "expected"),
    [
        ("postern__Host-id=1", "__Host-id=1"),
        ("a=1; postern__Secure-id=postern__Host-; b=2", "a=1; __Secure-id=postern__Host-; b=2"),
        ("postern=1; posternx=2", "postern=1; posternx=2"),
    ],
)
def test_renamed_cookies_return_under_their_own_names(cookies: str, expected: str) -> None:
    assert sent(LOCAL, TARGET, b"cookie", cookies.encode()) == [expected.encode()]
    assert sent(CLIENT, TARGET, b"cookie", cookies.encode()) == [cookies.encode()]


def test_a_client_without_tls_is_not_sent_to_https() -> None:
    assert received(LOCAL, TARGET, b"strict-transport-security", b"max-age=1") is None
    policy = b"default-src 'self'; upgrade-insecure-requests; img-src *"
    assert received(LOCAL, TARGET, b"content-security-policy", policy) == b"default-src 'self'; img-src *"
    assert received(LOCAL, TARGET, b"location", b"http://app.internal:3000/a") == b"http://127.0.0.1:4000/a"


@pytest.mark.parametrize("text", ["", "app.internal", "ftp://a", "http://", "http://a/", "http://a:0", "http://a:65536",
                                  "http://a b", "http://u@a", "http://a:", "http://a:1x", "http://[::1"])  # fmt: skip
def test_invalid_origins_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"origin|port"):
        HttpOrigin.read(text)
