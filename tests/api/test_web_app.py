"""How the built files are answered: policy, caching, compression, and what is no file."""

from __future__ import annotations

import gzip
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.api.conftest import Api
from tests.support.world import API_URL

from postern.web.web_assets import WebAssets, load_assets

PAGE = (
    '<meta name="postern-url" content="__API_URL__"><meta property="csp-nonce" nonce="__CSP_NONCE__">'
    '<a href="__PLAIN_PAGE__">'
)


@pytest.fixture
def assets(tmp_path: Path) -> WebAssets:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / ".sources").write_text("hash")
    (tmp_path / "icon.svg").write_text("<svg/>")
    script = tmp_path / "assets" / "index-1a2b.js"
    script.write_text("let a")
    script.with_name("index-1a2b.js.gz").write_bytes(gzip.compress(b"let a"))
    script.with_name("index-1a2b.js.br").write_bytes(b"brotli")
    loaded = load_assets(tmp_path)
    assert loaded is not None
    return loaded


def test_without_a_built_application_there_are_no_assets(tmp_path: Path) -> None:
    assert load_assets(tmp_path) is None


def test_page_has_a_new_nonce_each_time_and_only_there(assets: WebAssets) -> None:
    first, second = (assets.answer_page("http://localhost:7480", "/?plain") for _ in range(2))
    assert first.content != second.content
    nonce = first.content.partition(b'nonce="')[2].partition(b'"')[0].decode()
    policy = first.headers["Content-Security-Policy"]
    assert f"style-src 'self' 'nonce-{nonce}'" in policy
    assert "script-src 'self';" in policy  # no nonce, no inline script, no eval
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert first.headers["Cache-Control"] == "no-cache"


def test_attack_address_of_the_gateway_cannot_leave_its_attribute(assets: WebAssets) -> None:
    assert b'content="http://a&quot;&gt;&lt;script&gt;"' in assets.answer_page('http://a"><script>', "/").content


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("br;q=0.0", None),
        ("", None),
        ("*", None),
    ],
)
def test_file_is_sent_in_the_smallest_form_that_the_browser_accepts(
    assets: WebAssets, accept: str, encoding: str | None
) -> None:
    answer = assets.answer_file("assets/index-1a2b.js", accept)
    assert answer is not None
    assert answer.headers.get("Content-Encoding") == encoding
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    ["index.html", ".sources", "assets/index-1a2b.js.gz", "../web_assets.py", "assets/../index.html", "icon.svg/"],
)
def test_attack_only_built_files_are_sent(assets: WebAssets, path: str) -> None:
    assert assets.answer_file(path, "") is None


def test_name_without_a_hash_is_asked_for_again(assets: WebAssets) -> None:
    answer = assets.answer_file("icon.svg", "")
    assert answer is not None
    assert answer.headers["Cache-Control"] == "no-cache"


def root_of(api: Api) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(api.app), base_url="http://localhost")


@pytest.fixture
def pages(api: Api, assets: WebAssets) -> httpx.AsyncClient:
    api.app.state.web_assets = assets
    return root_of(api)


@pytest.mark.parametrize("path", ["/", "/login", "/setup", "/sql/orders.prod", "/%2e%2e/%2e%2e/etc/passwd"])
async def test_every_path_outside_the_api_has_the_page(pages: httpx.AsyncClient, path: str) -> None:
    answer = await pages.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers.get_list("content-security-policy") == [answer.headers["content-security-policy"]]
    assert answer.headers.get_list("cache-control") == ["no-cache"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/assets/old-9f9f.js", "/favicon.ico", "/api", "/api/nothing", "/robots.txt"])
async def test_missing_file_and_unknown_api_path_are_not_found(pages: httpx.AsyncClient, path: str) -> None:
    answer = await pages.get(path)
    assert answer.status_code == 404
    assert "message" in answer.json()


async def test_file_that_the_browser_has_is_not_sent_again(pages: httpx.AsyncClient) -> None:
    first = await pages.get("/icon.svg")
    again = await pages.get("/icon.svg", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == "no-cache"
    assert (await pages.get("/", headers={"If-None-Match": ""})).status_code == 200


async def test_other_methods_are_no_page(pages: httpx.AsyncClient) -> None:
    assert (await pages.post("/connections")).status_code in {404, 405}


async def test_answers_of_the_api_are_stored_nowhere(pages: httpx.AsyncClient) -> None:
    answer = await pages.get("/api/publicserverinfo")
    assert answer.headers.get_list("cache-control") == ["no-store"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_without_the_application_there_are_plain_pages(api: Api) -> None:
    pages = root_of(api)
    front, setup = await pages.get("/"), await pages.get("/setup")
    assert "Log in with this browser" in front.text
    assert "Set-up token" in setup.text
    missing = await pages.get("/connections")
    assert missing.status_code == 404
    assert "installed without the web application" in missing.json()["message"]


KEY = "7a4c3d0e-0000-4000-8000-000000000000"
LINKS = [
    (f"/reviews/{KEY}", f"/api/reviews/page/{KEY}"),
    (f"/sessions/{KEY}", f"/api/sessions/{KEY}"),
    ("/device", "/api/login/device"),
    ("/device?user_code=BCDF-GHJK&organization=acme", "/api/login/device?user_code=BCDF-GHJK&organization=acme"),
    ("/ssh-login?user_code=BCDF-GHJK", "/api/login/ssh?user_code=BCDF-GHJK"),
]


@pytest.mark.parametrize(("link", "plain"), LINKS)
async def test_link_without_the_application_redirects_to_the_plain_page(api: Api, link: str, plain: str) -> None:
    answer = await root_of(api).get(link)
    assert (answer.status_code, answer.headers["location"]) == (303, API_URL + plain)


@pytest.mark.parametrize(("link", "plain"), LINKS)
async def test_link_has_the_application_and_its_plain_page_without_scripts(
    pages: httpx.AsyncClient, link: str, plain: str
) -> None:
    answer = await pages.get(link)
    assert answer.status_code == 200
    assert f'<a href="{escape(plain)}">' in answer.text
    redirect = await pages.get(link, params={**httpx.URL(link).params, "plain": ""})
    assert (redirect.status_code, redirect.headers["location"]) == (303, API_URL + plain)


async def test_other_pages_lead_to_the_plain_front_page_without_scripts(pages: httpx.AsyncClient) -> None:
    assert '<a href="/?plain">' in (await pages.get("/connections")).text
    assert "Log in with this browser" in (await pages.get("/?plain")).text
    assert "Set-up token" in (await pages.get("/setup?plain")).text
    assert (await pages.get("/connections?plain")).text.startswith("<meta")  # it has no plain page


@pytest.mark.parametrize(
    "link",
    [
        "/reviews//evil.example",
        "/reviews/%2F%2Fevil.example",
        "/reviews/..%2F..%2F..%2Fevil",
        "/reviews/x%0d%0aSet-Cookie:%20a=b",
        "/reviews/@evil.example",
        "/device?user_code=%0d%0aLocation:%20//evil.example&organization=//evil.example",
        "/ssh-login?user_code=%26redirect=//evil.example/%23&back=//evil.example",
        "//evil.example/device",
        "/%5Cevil.example/reviews/1",
    ],
)
async def test_attack_link_cannot_redirect_to_a_different_site(api: Api, link: str) -> None:
    answer = await root_of(api).get(httpx.URL("http://localhost" + link))
    if answer.status_code != 303:
        assert answer.status_code == 404
        return
    location = urlsplit(answer.headers["location"])
    assert f"{location.scheme}://{location.netloc}" == API_URL
    allowed = ("/api/reviews/page/", "/api/login/device", "/api/login/ssh")
    assert location.path.startswith(allowed)
    assert location.path.count("/") <= 4
    assert set(parse_qs(location.query)) <= {"user_code", "organization"}
    assert "set-cookie" not in answer.headers


async def test_attack_path_cannot_fill_other_places_of_the_page(pages: httpx.AsyncClient) -> None:
    answer = await pages.get("/reviews/__CSP_NONCE__%22%3E%3Cscript%3E__API_URL__")
    assert '<a href="/api/reviews/page/__CSP_NONCE__%22%3E%3Cscript%3E__API_URL__">' in answer.text
    assert "<script>" not in answer.text
