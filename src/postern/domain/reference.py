"""References to secret stores, instead of a secret's value in the connection (spec 2.1, "Secret format").

    _provider:name:key

The agent resolves them when a session is opened. A reference is not secret: administrators see it as they wrote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from postern.errors import Invalid

CLOUD = "_cloudprov"  # whichever cloud provider the agent is set up for
IDENTITY = "_identity"  # a login token of the agent's own identity at a cloud, instead of a stored password
IDENTITY_CLOUDS = ("aws", "azure", "gcp")

# How the reference of each provider is written.
FORMS = {
    "_aws": "_aws:NAME_OR_ARN:KEY",
    "_azure": "_azure:NAME:KEY",
    CLOUD: "_cloudprov:NAME:KEY",
    "_envjson": "_envjson:VARIABLE:KEY",
    "_gcp": "_gcp:NAME:KEY",
    IDENTITY: f"_identity:CLOUD: with CLOUD one of {', '.join(IDENTITY_CLOUDS)}, or _identity:aws:REGION",
    "_vaultkv1": "_vaultkv1:PATH:KEY",
    "_vaultkv2": "_vaultkv2:PATH:KEY",
}
PROVIDERS = tuple(FORMS)

# Where a name stands for one text as often as for a JSON object: no key means all of it.
_WHOLE = frozenset({"_aws", "_azure", CLOUD, "_gcp", IDENTITY})

_ARN = re.compile(r"(arn(?::[^:]*){6}):(.*)", re.DOTALL)  # its six colons are the name's own
MAX_NAME, MAX_KEY = 512, 256  # characters


@dataclass(frozen=True, slots=True)
class Reference:
    provider: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}:{self.key}"

    @classmethod
    def read(cls, text: str) -> Reference:
        """Parse a reference. Raises Invalid, which does not repeat the text: it may be a secret written by mistake."""
        provider, _, rest = text.partition(":")
        if provider not in FORMS:
            raise Invalid(f"unknown provider; use one of {', '.join(FORMS.values())}", field="secret")
        arn = _ARN.fullmatch(rest)
        name, colon, key = (arn[1], ":", arn[2]) if arn else rest.partition(":")
        whole = bool(name and colon and (key or provider in _WHOLE))
        if provider == IDENTITY and (name not in IDENTITY_CLOUDS or (key and name != "aws")):
            whole = False
        if not whole or len(name) > MAX_NAME or len(key) > MAX_KEY or not rest.isprintable():
            raise Invalid(f"a reference to {provider} must have the form {FORMS[provider]}", field="secret")
        return cls(provider, name, key)


def is_reference(text: str) -> bool:
    try:
        Reference.read(text)
    except Invalid:
        return False
    return True
