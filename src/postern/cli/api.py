"""The way from a command to the API: the profile in force, and a client for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from postern.cli import profile
from postern.client.client import Client
from postern.client.http import Http


@contextmanager
def client() -> Iterator[Client]:
    """Raises Unauthenticated when nobody is logged in."""
    used = profile.require(os.environ)
    with Http(used.api_url, used.token, authority=used.authority or None) as http:
        yield Client(http)
