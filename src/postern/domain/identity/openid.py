"""A login by OpenID Connect: what is kept between leaving for the provider and coming back, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.identity.identity import Identity
from postern.domain.identity.login import Provided


@dataclass(frozen=True, slots=True)
class Begun:
    """`url` is where the browser goes. `nonce` and `code_verifier` stay here until the answer is checked."""

    url: str
    nonce: str
    code_verifier: str


@dataclass(frozen=True, slots=True)
class Granted:
    """What the provider says of somebody, and how long it vouches."""

    identity: Identity
    provided: Provided
