"""Access from a command to the API: the profile in force, and a client for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from postern.cli.login import login_renewal, profile
from postern.cli.login.profile import Profile
from postern.client.client import Client
from postern.client.client_http import Http


def in_force() -> Profile:
    """Return a client whose token is valid for a while. Raises Unauthenticated if no user is logged in."""
    environ = profile.environ()
    return login_renewal.fresh(environ, profile.require(environ))


@contextmanager
def client() -> Iterator[Client]:
    """Raises Unauthenticated if no user is logged in."""
    with http_of(in_force()) as http:
        yield Client(http)


def http_of(used: Profile) -> Http:
    return Http(used.api_url, used.token, authority=used.authority or None)
