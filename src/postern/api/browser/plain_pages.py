"""The plain pages that do the work of the web application's pages without scripts.

Links to users lead to the web application (`domain/page_addresses.py`). A browser without scripts, and a gateway
without the web application, use the plain page instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from postern.api.browser.web_login_pages import SETUP
from postern.domain.page_addresses import DEVICE, REVIEWS, SESSIONS, SSH_LOGIN

FRONT_PAGE = "/?plain"
DEVICE_PAGE, SSH_LOGIN_PAGE, REVIEW_PAGES = "/api/login/device", "/api/login/ssh", "/api/reviews/page"

_PAGES = {DEVICE: DEVICE_PAGE, SSH_LOGIN: SSH_LOGIN_PAGE, "/setup": SETUP}
_PAGES_OF_ONE = {REVIEWS: REVIEW_PAGES, SESSIONS: "/api/sessions"}  # a session has no plain page but its data
_PARAMETERS = ("user_code", "organization")


def plain_page_of(path: str, query: Mapping[str, str]) -> str | None:
    """Return the path of the plain page for a path of the web application, with the parameters that it knows; None if
    there is none.

    The result always is a path of this gateway: it begins with one of ours, and the rest is percent-encoded.
    """
    if path in _PAGES:
        parameters = urlencode({name: query[name] for name in _PARAMETERS if query.get(name)})
        return _PAGES[path] + (f"?{parameters}" if parameters else "")
    collection, _, key = path.rpartition("/")
    if collection in _PAGES_OF_ONE and key:
        return f"{_PAGES_OF_ONE[collection]}/{quote(key, safe='')}"
    return None
