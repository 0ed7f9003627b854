"""The native clients of all protocols, and the forms in which `connect --native --format` prints a credential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.errors import Invalid
from postern.protocols.clients import NativeClient, NativeCredential
from postern.protocols.registry import PROTOCOLS

CLIENTS: Final[Mapping[str, NativeClient]] = {
    name: spec.client() for name, spec in PROTOCOLS.items() if spec.client is not None
}
FORMS: Final = tuple(dict.fromkeys(form for client in CLIENTS.values() for form in client.forms))


def require_form(subtype: str, form: str) -> None:
    """Check that credentials of this subtype can be printed in a form. Raises Invalid."""
    forms = CLIENTS[subtype].forms if subtype in CLIENTS else {}
    if form in forms:
        return
    servers = f" for {PROTOCOLS[subtype].servers}" if subtype in PROTOCOLS else ""
    advice = f"use {' or '.join(forms)}" if forms else "leave out --format"
    raise Invalid(f"there is no --format {form!r}{servers}; {advice}", field="format")


def credential_in_form(subtype: str, form: str, credential: NativeCredential) -> str:
    """Return a credential in the form of a client, a driver or a framework. Raises Invalid."""
    require_form(subtype, form)
    return CLIENTS[subtype].forms[form].text(credential)
