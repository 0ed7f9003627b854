"""Resolution of a session's secrets, on the agent's machine, when the session opens (spec 2.1)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from postern.agent.agent_policy import ANYTHING, LocalPolicy
from postern.agent.secret_files import SecretFiles
from postern.domain.reference import IDENTITY, Reference
from postern.domain.secret import Secret
from postern.domain.targets.connection import PASSWORD_KEY, SecretKind, secret_key
from postern.domain.targets.target_keys import TARGET_KEYS
from postern.errors import Denied, Invalid, Unavailable
from postern.integrations.secrets.login_tokens import TokenTarget
from postern.integrations.secrets.sources import Sources
from postern.protocols.registry import PROTOCOLS
from postern.relay.orders import Order

# The secret that names an identity of the agent instead of keys.
ACCESS_KEY = "envvar:AWS_ACCESS_KEY_ID"
# The password variable of each kind of target's own client.
_PASSWORD_VARIABLES = {spec.name: spec.password_variable for spec in PROTOCOLS.values() if spec.password_variable}


@dataclass(slots=True)
class ResolvedSecrets:
    """The resolved secrets.

    `values` are the secrets by bare name. `env` is the environment of a command: the same, but with the path of its
    file for each `filesystem:` secret, the password again in the variable of the target's own client, and facts about
    the session. `release` removes the files; it can be called more than once, and never raises. `identity` is the cloud
    whose requests are signed with the agent's own identity there; empty where the secrets have keys.
    """

    values: dict[str, Secret]
    env: dict[str, Secret]
    release: Callable[[], None] = field(default=lambda: None)
    identity: str = ""

    def environment(self) -> dict[str, str]:
        """Return `env` in clear text, only for the environment of a process that is about to start."""
        return {name: value.reveal() for name, value in self.env.items()}


class Resolver:
    """Resolves secrets. If `sources` is None, references are not allowed, only values. `policy` limits the
    references."""

    def __init__(self, sources: Sources | None, files: SecretFiles, policy: LocalPolicy = ANYTHING) -> None:
        self._sources = sources
        self._files = files
        self._policy = policy

    async def resolve(self, order: Order, *, files: bool = True) -> ResolvedSecrets:
        """Resolve all secrets or none: raises Unavailable with the connection, the secret and the reason, or Denied by
        the policy. Without `files` none are written, and `env` lacks their paths."""
        contents = await self._contents(order)
        identity = self._check_identity(order)
        if not identity:
            await self._add_login_token(order, contents)
        texts = {name: Secret(text) for name, (_, content) in contents.items() if (text := _text(content)) is not None}
        env = {name: texts[name] for name, (kind, _) in contents.items() if kind is SecretKind.VARIABLE}
        file_contents = {name: content for name, (kind, content) in contents.items() if kind is SecretKind.FILE}
        client = _PASSWORD_VARIABLES.get(order.subtype)
        if client is not None and "PASS" in env:
            env.setdefault(client, env["PASS"])
        env |= {name: Secret(value) for name, value in facts_of(order).items()}
        if not file_contents or not files:
            return ResolvedSecrets(texts, env, identity=identity)
        written = self._files.write(file_contents)
        env |= {name: Secret(str(path)) for name, path in written.paths.items()}
        return ResolvedSecrets(texts, env, written.remove, identity)

    def _check_identity(self, order: Order) -> str:
        """Return the cloud whose requests are signed with the agent's identity; empty for none. No secret leaves the
        agent for it, but the identity must be allowed as any reference is. Raises Unavailable, Denied."""
        identities = {key: value.reveal() for key, value in order.secret.items() if _is_identity(value.reveal())}
        if list(identities) != [ACCESS_KEY]:
            return ""
        where = f"connection {order.connection!r}: secret AWS_ACCESS_KEY_ID"
        if order.command or order.subtype not in PROTOCOLS or not PROTOCOLS[order.subtype].signs_requests:
            raise Unavailable(f"{where}: only protocols whose requests the agent signs take its own identity")
        reference = self._check_allowed(where, identities[ACCESS_KEY])[1]
        if reference.name != "aws":
            raise Unavailable(f"{where}: write _identity:aws: for the agent's own identity")
        return reference.name

    async def _add_login_token(self, order: Order, contents: dict[str, tuple[SecretKind, bytes]]) -> None:
        """Add the login token of a cloud identity, where one replaces the password.

        A stolen token is enough to log in, so it is sent only to a target with a verified certificate. Raises
        Unavailable, Denied.
        """
        identities = {key: value.reveal() for key, value in order.secret.items() if _is_identity(value.reveal())}
        if not identities:
            return
        where = f"connection {order.connection!r}: secret PASS"
        text = identities.pop(PASSWORD_KEY, "")
        if identities:
            raise Unavailable(f"{where}: only {PASSWORD_KEY!r} can be a login token of a cloud identity; save it again")
        keys = TARGET_KEYS.get(order.subtype)
        if keys is None or "SSLMODE" not in keys.known or order.command:
            raise Unavailable(f"{where}: only databases with a protocol of their own take a login token")
        values = {name: content.decode(errors="replace") for name, (_, content) in contents.items()}
        if values.get("SSLMODE") not in ("verify-ca", "verify-full"):
            raise Unavailable(f"{where}: a login token needs SSLMODE verify-full (or verify-ca); set it")
        port = values.get("PORT") or str(keys.port)
        target = TokenTarget(values.get("HOST", ""), int(port) if port.isdecimal() else 0, values.get("USER", ""))
        token = await self._resolve(where, text, lambda sources, reference: sources.login_token(reference, target))
        contents["PASS"] = SecretKind.VARIABLE, token.encode()

    def forget(self, order: Order) -> None:
        """Drop cached values: the target rejected these secrets, so the next session reads their sources again."""
        for value in order.secret.values():
            if self._sources is not None and _is_stored_reference(value.reveal()):
                self._sources.forget(Reference.read(value.reveal()))

    async def _contents(self, order: Order) -> dict[str, tuple[SecretKind, bytes]]:
        """Return the values as they are stored, and those that references stand for; a login token is added later."""
        secret = {key: value for key, value in order.secret.items() if not _is_identity(value.reveal())}
        keys = [_parts(order, key) for key in secret]
        places = [f"connection {order.connection!r}: secret {name}" for _, name in keys]
        texts = [value.reveal() for value in secret.values()]
        references = [at for at, text in enumerate(texts) if _is_reference(text)]
        resolved: dict[int, str | BaseException] = {}
        if references:
            # Wait for all of them, so that the reported error is always the first one's.
            values = await asyncio.gather(
                *(self._resolve(places[at], texts[at], Sources.value) for at in references), return_exceptions=True
            )
            resolved = dict(zip(references, values, strict=True))
        contents = {}
        for at, (kind, name) in enumerate(keys):
            value = resolved.get(at)
            if isinstance(value, BaseException):
                raise value
            content = _decode_base64(places[at], texts[at]) if value is None else value.encode()
            if kind is SecretKind.VARIABLE:
                _check_variable(places[at], content)
            contents[name] = kind, content
        return contents

    async def _resolve(
        self, where: str, text: str, ask: Callable[[Sources, Reference], Coroutine[Any, Any, Secret]]
    ) -> str:
        """Return what `ask` answers for a reference that is allowed here. Raises Unavailable, Denied."""
        sources, reference = self._check_allowed(where, text)
        try:
            return (await ask(sources, reference)).reveal()
        except (Denied, Unavailable) as problem:
            raise type(problem)(f"{where}: {problem.message}") from None

    def _check_allowed(self, where: str, text: str) -> tuple[Sources, Reference]:
        """Return a reference that is allowed here. Raises Unavailable, Denied."""
        try:
            reference = Reference.read(text)
        except Invalid as problem:
            raise Unavailable(f"{where}: {problem.message}; save it again") from None
        if self._sources is None:
            raise Unavailable(
                f"{where} refers to {reference}: connections of this organisation cannot use secrets of the "
                "gateway's machine; store the value, or use an agent of your own"
            )
        try:
            self._policy.check_reference(reference)
        except Denied as problem:
            raise Denied(f"{where}: {problem.message}") from None
        return self._sources, reference


def facts_of(order: Order) -> Mapping[str, str]:
    """Return the facts about its session that a command can read."""
    return {
        "POSTERN_CONNECTION_NAME": order.connection,
        "POSTERN_CONNECTION_TYPE": order.type.value,
        "POSTERN_SESSION_ID": str(order.session_id),
        "POSTERN_USER_EMAIL": order.user_email,
        "POSTERN_USER_ID": order.user_id,
        "POSTERN_CLIENT_VERB": order.verb.value,
    }


def _parts(order: Order, key: str) -> tuple[SecretKind, str]:
    try:
        return secret_key(key)
    except Invalid as problem:
        raise Unavailable(f"connection {order.connection!r}: {problem.message}; save it again") from None


def _decode_base64(where: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        pass  # its context would be the value
    raise Unavailable(f"{where} is not base64; save it again")


def _is_reference(text: str) -> bool:
    return text.startswith("_")  # base64 never does


def _is_identity(text: str) -> bool:
    return text.startswith(f"{IDENTITY}:")


def _is_stored_reference(text: str) -> bool:
    return _is_reference(text) and not _is_identity(text)


def _check_variable(where: str, content: bytes) -> None:
    decoded = _text(content)
    if decoded is None or "\0" in decoded:
        raise Unavailable(f"{where} is not text; make it a 'filesystem:' secret")


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
