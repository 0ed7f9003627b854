"""A login by OpenID Connect: its state until the browser returns from the provider, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.identity.identity import Identity
from postern.domain.identity.login import Provided


@dataclass(frozen=True, slots=True)
class Begun:
    """A started login. `url` is where the browser goes. `nonce` and `code_verifier` stay here until the answer is
    checked."""

    url: str
    nonce: str
    code_verifier: str


@dataclass(frozen=True, slots=True)
class Granted:
    """The provider's claims about a user, and its confirmation."""

    identity: Identity
    provided: Provided
