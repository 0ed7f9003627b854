"""Resolution of a session's secrets, on the agent's machine, when the session opens (spec 2.1)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from postern.agent.agent_policy import ANYTHING, LocalPolicy
from postern.agent.secret_files import SecretFiles
from postern.domain.reference import Reference
from postern.domain.secret import Secret
from postern.domain.targets.connection import SecretKind, secret_key
from postern.errors import Denied, Invalid, Unavailable
from postern.integrations.secrets.sources import Sources
from postern.protocols.registry import PROTOCOLS
from postern.relay.orders import Order

# The password variable of each kind of target's own client.
_PASSWORD_VARIABLES = {
    "mssql": "SQLCMDPASSWORD",  # used by commands only
    **{spec.name: spec.password_variable for spec in PROTOCOLS.values() if spec.password_variable},
}


@dataclass(slots=True)
class ResolvedSecrets:
    """The resolved secrets.

    `values` are the secrets by bare name. `env` is the environment of a command: the same, but with the path of its
    file for each `filesystem:` secret, the password again in the variable of the target's own client, and facts about
    the session. `release` removes the files; it can be called more than once, and never raises.
    """

    values: dict[str, Secret]
    env: dict[str, Secret]
    release: Callable[[], None] = field(default=lambda: None)

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
        texts = {name: Secret(text) for name, (_, content) in contents.items() if (text := _text(content)) is not None}
        env = {name: texts[name] for name, (kind, _) in contents.items() if kind is SecretKind.VARIABLE}
        file_contents = {name: content for name, (kind, content) in contents.items() if kind is SecretKind.FILE}
        client = _PASSWORD_VARIABLES.get(order.subtype)
        if client is not None and "PASS" in env:
            env.setdefault(client, env["PASS"])
        env |= {name: Secret(value) for name, value in facts_of(order).items()}
        if not file_contents or not files:
            return ResolvedSecrets(texts, env)
        written = self._files.write(file_contents)
        env |= {name: Secret(str(path)) for name, path in written.paths.items()}
        return ResolvedSecrets(texts, env, written.remove)

    def forget(self, order: Order) -> None:
        """Drop cached values: the target rejected these secrets, so the next session reads their sources again."""
        for value in order.secret.values():
            if self._sources is not None and value.reveal().startswith("_"):
                self._sources.forget(Reference.read(value.reveal()))

    async def _contents(self, order: Order) -> dict[str, tuple[SecretKind, bytes]]:
        keys = [_parts(order, key) for key in order.secret]
        # Wait for all of them, so that the reported error is always the first one's.
        values = await asyncio.gather(
            *(
                self._content(f"connection {order.connection!r}: secret {name}", kind, value.reveal())
                for (kind, name), value in zip(keys, order.secret.values(), strict=True)
            ),
            return_exceptions=True,
        )
        contents = {}
        for (kind, name), content in zip(keys, values, strict=True):
            if isinstance(content, BaseException):
                raise content
            contents[name] = kind, content
        return contents

    async def _content(self, where: str, kind: SecretKind, text: str) -> bytes:
        is_elsewhere = text.startswith("_")  # base64 never does
        content = (await self._resolve_reference(where, text)).encode() if is_elsewhere else _decode_base64(where, text)
        if kind is SecretKind.VARIABLE:
            decoded = _text(content)
            if decoded is None or "\0" in decoded:
                raise Unavailable(f"{where} is not text; make it a 'filesystem:' secret")
        return content

    async def _resolve_reference(self, where: str, text: str) -> str:
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
            return (await self._sources.value(reference)).reveal()
        except (Denied, Unavailable) as problem:
            raise type(problem)(f"{where}: {problem.message}") from None


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


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
