"""The keys of a connection's `secret` for each subtype: which are required, and which are not secret.

The specs of protocols name them. Agents read these keys when they dial a target; any other key would be ignored, so it
is rejected when the connection is saved.
"""

from __future__ import annotations

import base64
import difflib
from collections.abc import Collection, Iterable, Mapping

from postern.domain.reference import is_reference
from postern.domain.secret import Secret
from postern.errors import Invalid
from postern.protocols.registry import PROTOCOLS
from postern.protocols.spec import TargetKeys

# Other names of a subtype, as clients and drivers spell it. The canonical one is stored.
ALIASES: Mapping[str, str] = {alias: spec.name for spec in PROTOCOLS.values() for alias in spec.aliases}

# Subtypes that are missing here have no protocol of their own yet: their keys go to a command, which may want any.
TARGET_KEYS: Mapping[str, TargetKeys] = {spec.name: spec.keys for spec in PROTOCOLS.values() if spec.keys is not None}

# What other tools call the same thing; spellings that are merely close are found by comparison.
_SYNONYMS: Mapping[str, str] = {
    **dict.fromkeys(("HOSTNAME", "ADDRESS", "SERVER", "DB_HOST"), "HOST"),
    **dict.fromkeys(("DB_PORT",), "PORT"),
    **dict.fromkeys(("USERNAME", "LOGIN", "DB_USER", "ACCOUNT"), "USER"),
    **dict.fromkeys(("PASSWORD", "PASSWD", "PWD", "SECRET", "DB_PASS", "DB_PASSWORD"), "PASS"),
    **dict.fromkeys(("DATABASE", "DBNAME", "DB_NAME", "SCHEMA"), "DB"),
    **dict.fromkeys(("SSL", "TLS", "SSL_MODE", "TLSMODE", "TLS_MODE"), "SSLMODE"),
    **dict.fromkeys(("CA", "CACERT", "SSLCA", "SSL_CA", "ROOTCERT", "SSL_ROOT_CERT"), "SSLROOTCERT"),
    **dict.fromkeys(("KEY", "IDENTITY", "IDENTITY_FILE", "KEY_FILE"), "PRIVATE_KEY"),
    **dict.fromkeys(("PASSPHRASE", "KEY_PASS", "KEYPASS"), "PRIVATE_KEY_PASS"),
    **dict.fromkeys(("KNOWN_HOSTS", "HOST_KEY"), "HOST_KEYS"),
    **{
        variable: key
        for spec in PROTOCOLS.values()
        for key, variables in spec.variables.items()
        for variable in variables
    },
}


def canonical_subtype(subtype: str) -> str:
    """Return the subtype that is stored for `subtype`: itself, unless it is an alias."""
    return ALIASES.get(subtype, subtype)


def check_target_keys(subtype: str, secret: Collection[str], empty: Collection[str] = ()) -> None:
    """Check the keys of `secret` (`envvar:HOST`) against what `subtype` takes; `empty` are those without a value.

    Raises Invalid, which names the key and the one that was probably meant, and no value.
    """
    keys = TARGET_KEYS.get(subtype)
    if keys is None:
        return
    names = {key.partition(":")[2] for key in secret}
    unknown = [_describe_unknown(name, keys) for name in sorted(names) if not keys.has(name)]
    if unknown:
        raise Invalid(
            f"secret: a connection of subtype {subtype!r} has no key {'; and no key '.join(unknown)}. "
            f"Its keys are {', '.join((*keys.known, *(f'{prefix}…' for prefix in keys.prefixes)))}",
            field="secret",
        )
    filled = names - {key.partition(":")[2] for key in empty}
    missing = [name for name in keys.required if name not in filled]
    if missing:
        raise Invalid(
            f"secret: a connection of subtype {subtype!r} needs {' and '.join(missing)}; "
            f"give {', '.join(f'--env {name}=…' for name in missing)}, or "
            f"{', '.join(repr(f'envvar:{name}') for name in missing)} in the API",
            field="secret",
        )
    if keys.one_of and filled.isdisjoint(keys.one_of):
        raise Invalid(
            f"secret: a connection of subtype {subtype!r} needs {' or '.join(keys.one_of)}; "
            f"give {' or '.join(f'--env {name}=…' for name in keys.one_of)}, or "
            f"{' or '.join(repr(f'envvar:{name}') for name in keys.one_of)} in the API",
            field="secret",
        )


def _describe_unknown(name: str, keys: TargetKeys) -> str:
    """Return the name in quotes, with the key that was probably meant."""
    upper = name.upper()
    suggestion = next(iter(candidates(upper, keys.known)), None)
    return repr(name) if suggestion is None else f"{name!r} (did you mean {suggestion}?)"


def candidates(name: str, keys: Iterable[str]) -> list[str]:
    """Return the known keys that `name` probably stands for, best first."""
    choices = list(keys)
    if name in choices:
        return [name]
    synonym = _SYNONYMS.get(name)
    return [synonym] if synonym in choices else difflib.get_close_matches(name, choices, n=1, cutoff=0.7)


def readable_values(subtype: str, secret: Mapping[str, Secret]) -> dict[str, str]:
    """Return the values of a connection that are not secret, by bare name, with the port that is dialled.

    A reference stays a reference: the gateway does not know what it stands for.
    """
    keys = TARGET_KEYS.get(subtype)
    if keys is None:
        return {}
    values = {}
    for name in keys.readable:
        stored = secret.get(f"envvar:{name}") or secret.get(f"filesystem:{name}")
        if stored:
            text = stored.reveal()
            values[name] = text if is_reference(text) else base64.b64decode(text).decode(errors="replace")
        elif name == "PORT" and "HOST" in values:
            values[name] = str(keys.port)
    return values
