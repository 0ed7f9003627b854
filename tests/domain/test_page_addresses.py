"""Links to users lead to pages of the web application."""

from __future__ import annotations

from uuid import UUID

import pytest

from postern.domain.page_addresses import device_address, review_address, session_address, ssh_login_address

GATE = "https://gate.example.com"


@pytest.mark.parametrize("api_url", [GATE, f"{GATE}/"])
def test_links_lead_to_the_web_application(api_url: str) -> None:
    key = UUID(int=7)
    assert review_address(api_url, key) == f"{GATE}/reviews/{key}"
    assert session_address(api_url, key) == f"{GATE}/sessions/{key}"
    assert ssh_login_address(api_url, "BCDF-GHJK") == f"{GATE}/ssh-login?user_code=BCDF-GHJK"
    assert device_address(api_url) == f"{GATE}/device"
    assert device_address(api_url, "BCDF-GHJK") == f"{GATE}/device?user_code=BCDF-GHJK"


def test_attack_name_of_an_organisation_adds_no_parameter_to_a_link() -> None:
    assert device_address(GATE, "BCDF-GHJK", "a&user_code=X#") == (
        f"{GATE}/device?user_code=BCDF-GHJK&organization=a%26user_code%3DX%23"
    )
