"""Addresses of the web application's pages, for messages to users: notifications, terminals, native clients, issues.

Messages outlive the process that sends them and whether the gateway serves the web application, so they have one
address in both cases. A gateway without the web application redirects to its plain page
(`api/browser/plain_pages.py`). `api_url` is without `/api`.
"""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

REVIEWS, SESSIONS, DEVICE, SSH_LOGIN, OPEN_APP = "/reviews", "/sessions", "/device", "/ssh-login", "/open-app"


def review_address(api_url: str, review_id: UUID) -> str:
    """Return the page where the review is decided."""
    return _address(api_url, f"{REVIEWS}/{review_id}")


def session_address(api_url: str, session_id: UUID) -> str:
    return _address(api_url, f"{SESSIONS}/{session_id}")


def device_address(api_url: str, user_code: str = "", organization: str | None = None) -> str:
    """Return the page where a user confirms a command line; without a code it asks for one."""
    return _address(api_url, DEVICE, user_code=user_code, organization=organization or "")


def ssh_login_address(api_url: str, user_code: str) -> str:
    """Return the page where a user approves an SSH client."""
    return _address(api_url, SSH_LOGIN, user_code=user_code)


def open_app_address(api_url: str, host: str, challenge: str) -> str:
    """Return the page where a browser that has begun a login at the host of an application gets its code."""
    return _address(api_url, OPEN_APP, host=host, challenge=challenge)


def _address(api_url: str, path: str, **query: str) -> str:
    present = urlencode({name: value for name, value in query.items() if value})
    return f"{api_url.rstrip('/')}{path}" + (f"?{present}" if present else "")
