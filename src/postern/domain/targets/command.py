"""What a client can add to the command that it runs: arguments, and environment variables."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from postern.domain.secret import Secret
from postern.domain.sessions.script_parameters import Parameters
from postern.errors import Invalid
from postern.protocols.registry import PROTOCOLS

MAX_ARGUMENTS = 256
MAX_BYTES = 96 * 1024  # of all arguments, and of all variables: what a tunnel's message and Linux take

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PREFIX = "envvar:"
# They control which code programs load or start, or which servers a command contacts with its secrets; and a command's
# facts about its session come from us. No list is complete: docs/how-to/run-commands.md explains the consequences.
_LOADERS = frozenset(
    {
        *("PATH", "HOME", "SHELL", "TMPDIR", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "ZDOTDIR"),
        *("PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "INPUTRC", "IRBRC", "PHPRC", "EXINIT", "VIMINIT", "TERMINFO"),
        *("GCONV_PATH", "LOCPATH", "NLSPATH", "CLASSPATH", "ERL_FLAGS", "BROWSER", "HOSTALIASES", "OPENSSL_CONF"),
    }
)
_LOADER_PREFIXES = (
    *("LD_", "DYLD_", "MALLOC_", "BASH_FUNC_", "XDG_", "LESS", "GIT_", "PYTHON", "PERL5", "RUBY", "GEM_", "BUNDLE_"),
    *("NODE_", "NPM_", "LUA_", "PHP_INI", "JAVA_TOOL", "SSL_", "AWS_ENDPOINT", "AWS_C", "AWS_S", "POSTERN_"),
    *(prefix for spec in PROTOCOLS.values() for prefix in spec.unsafe_variables),
)
_LOADER_ENDINGS = ("PAGER", "EDITOR", "VISUAL", "_PROXY", "_OPTIONS", "_OPTS", "_PRELOAD")


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a client adds to a script: parameters; and to a connection's command: arguments after its own, variables
    beside its secrets."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, Secret] = field(default_factory=dict)
    parameters: Parameters = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.is_for_commands or self.parameters)

    @property
    def is_for_commands(self) -> bool:
        """Whether only a command can take it."""
        return bool(self.arguments or self.environment)


NOTHING_ADDED = Invocation()


def is_variable(name: str) -> bool:
    """Return whether a client can set it."""
    upper = name.upper()  # some programs read either case
    chosen = upper in _LOADERS or upper.startswith(_LOADER_PREFIXES) or upper.endswith(_LOADER_ENDINGS)
    return bool(_NAME.fullmatch(name)) and not chosen


def check_arguments(arguments: Sequence[str], field: str = "client_args") -> tuple[str, ...]:
    """Check arguments. Raises Invalid."""
    if len(arguments) > MAX_ARGUMENTS or sum(len(text.encode("utf-8", "replace")) for text in arguments) > MAX_BYTES:
        raise Invalid(f"{field}: at most {MAX_ARGUMENTS} arguments of {MAX_BYTES} bytes together", field=field)
    for text in arguments:
        if "\0" in text or not _is_utf8(text):
            raise Invalid(f"{field}: an argument must be text without NUL", field=field)
    return tuple(arguments)


def check_variables(variables: Mapping[str, str], field: str = "env_vars") -> dict[str, Secret]:
    """Check names and plain values. Raises Invalid, which does not repeat a value."""
    if sum(len(name) + len(value) for name, value in variables.items()) > MAX_BYTES:
        raise Invalid(f"{field}: at most {MAX_BYTES} characters of variables", field=field)
    for name, value in variables.items():
        if not is_variable(name):
            raise Invalid(
                f"{field}: {name[:64]!r} cannot be set: it is not a valid variable name, or controls which code runs "
                "or which servers it contacts; an administrator can set it as a secret of the connection",
                field=field,
            )
        if "\0" in value or not _is_utf8(value):
            raise Invalid(f"{field}: the value of {name!r} must be text without NUL", field=field)
    return {name: Secret(value) for name, value in variables.items()}


def decoded_variables(variables: Mapping[str, str], field: str = "env_vars") -> dict[str, Secret]:
    """Decode `envvar:NAME` with base64 text, the form of secrets (spec 2.1). Raises Invalid."""
    plain = {}
    for key, value in variables.items():
        if not key.startswith(_PREFIX):
            raise Invalid(f"{field}: key {key[:64]!r} must be 'envvar:NAME'", field=field)
        try:
            plain[key.removeprefix(_PREFIX)] = base64.b64decode(value, validate=True).decode()
        except ValueError:
            raise Invalid(f"{field}: the value of {key[:64]!r} is not base64 text", field=field) from None
    return check_variables(plain, field)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
