"""The development server of the web application stands where the gateway does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway, started
from tests.web.conftest import visiting
from tests.web.people import ADMIN, People
from tests.web.test_terminals import open_terminal, screen, shell, type_line
from tests.web.vite import running_vite

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo", "--gateway-commands") as running:
        yield running


@pytest.fixture
def development_url(gateway: Gateway, tmp_path: Path) -> Iterator[str]:
    with running_vite(tmp_path, POSTERN_API_URL=gateway.told["api_url"]) as url:
        yield url


def test_page_under_development_has_the_policy_the_api_and_its_web_sockets(
    browser: Browser, gateway: Gateway, development_url: str
) -> None:
    name = shell(People(gateway), "developed")
    with visiting(browser, gateway) as visit:
        visit.url = development_url
        visit.expected_errors.append("403 (Forbidden)")  # of fonts, if the folder of packages is a link
        page, policies = visit.page, []
        page.on("response", lambda response: policies.append(response.headers.get("content-security-policy")))
        visit.open(f"/terminal/{name}")
        visit.log_in(ADMIN)
        open_terminal(page)
        type_line(page, "echo devel''oped")
        expect(screen(page)).to_contain_text("developed")
        assert "require-trusted-types-for 'script'" in policies[0]
