"""How the values of settings are found and converted: options before environment before file before defaults.

`settings.py` has the settings. Their field metadata says what a value can be: see `_setting` there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from postern.domain.durations import parse_duration
from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.settings_file import DEFAULT_PLACE, SettingsFile, read_settings_file

NO_FILE = os.devnull  # as POSTERN_CONFIG: a file without settings
MAX_SECRET_FILE = 64 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """Where a value comes from. `kind`: flag, environment, file or default. `name`: the option, the variable, or the
    file with its line."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class Resolved:
    """Values of settings with their origins, without those that cannot be used: `problems` are about them."""

    values: Mapping[str, Any]
    origins: Mapping[str, SettingOrigin]
    problems: tuple[Misconfigured, ...]
    file: Path | None


# A value as it was written, and where.
Found = tuple[object, SettingOrigin]


@cache
def _hints(kind: type) -> dict[str, type]:
    return get_type_hints(kind)


@cache
def _metadata(kind: type) -> dict[str, Mapping[str, Any]]:
    return {spec.name: spec.metadata for spec in fields(kind)}


def variable_of(name: str) -> str:
    return f"POSTERN_{name.upper()}"


def option_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def is_secret(kind: type, name: str) -> bool:
    """Return whether the setting is a secret or can contain one, so that it can be in a file of its own."""
    return _hints(kind)[name] is Secret or bool(_metadata(kind)[name].get("holds_secret"))


def open_settings_file(chosen: str, known: Collection[str]) -> SettingsFile | None:
    """Return the chosen file, or the one in the default place if there is one and none is chosen. Raises Misconfigured
    if it cannot be read as a whole."""
    path = Path(chosen) if chosen else DEFAULT_PLACE
    try:
        return read_settings_file(path, known)
    except FileNotFoundError:
        if not chosen:
            return None
        raise Misconfigured(
            f"the configuration file {path} does not exist; --config and POSTERN_CONFIG choose the file", field="config"
        ) from None


def resolve_values(
    kind: type,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    file: SettingsFile | None,
    defaults: Mapping[str, object],
) -> Resolved:
    """Return the values of all settings of `kind`, a dataclass. `defaults` are those that it does not have."""
    values: dict[str, Any] = {}
    origins: dict[str, SettingOrigin] = {}
    problems = list(file.problems if file is not None else ())
    for spec in fields(kind):
        values[spec.name], origins[spec.name] = defaults.get(spec.name, spec.default), SettingOrigin("default")
        try:
            given = _find(kind, spec.name, environ, flags, file)
            if given is None:
                continue
            raw, origins[spec.name] = given
            if raw != "":
                values[spec.name] = _convert(kind, spec.name, raw, origins[spec.name])
        except Misconfigured as error:
            problems.append(error)
    return Resolved(values, origins, tuple(problems), file.path if file is not None else None)


def require_all(resolved: Resolved) -> Mapping[str, Any]:
    """Return the values. Raises Misconfigured with the first problem."""
    if not resolved.problems:
        return resolved.values
    first, others = resolved.problems[0], len(resolved.problems) - 1
    if others:
        more = f" ({others} more {'problem' if others == 1 else 'problems'}: `postern config check` lists all)"
        raise Misconfigured(first.message + more, field=first.field)
    raise first


def _find(
    kind: type, name: str, environ: Mapping[str, str], flags: Mapping[str, object], file: SettingsFile | None
) -> Found | None:
    """Return the value that counts, as it was written. An option that is empty chooses the default."""
    flag = flags.get(name)
    if flag is not None:
        return flag, SettingOrigin("flag", option_of(name))
    return _find_in_environment(kind, name, environ) or (_find_in_file(kind, name, environ, file) if file else None)


def _find_in_environment(kind: type, name: str, environ: Mapping[str, str]) -> Found | None:
    variable, file_variable = variable_of(name), variable_of(f"{name}_file")
    text, path = environ.get(variable, ""), environ.get(file_variable, "") if is_secret(kind, name) else ""
    if text and path:
        raise Misconfigured(f"{variable} and {file_variable} are both set; set one of them", field=name)
    if path:
        origin = SettingOrigin("environment", f"{file_variable}={path}")
        return _read_secret(path, file_variable, name, environ), origin
    return (text, SettingOrigin("environment", variable)) if text else None


def _find_in_file(kind: type, name: str, environ: Mapping[str, str], file: SettingsFile) -> Found | None:
    key_of_path = f"{name}_file"
    has_value = name in file.values and file.values[name].value != ""
    if is_secret(kind, name) and key_of_path in file.values and file.values[key_of_path].value != "":
        place, path = file.place_of(key_of_path), file.values[key_of_path].value
        if has_value:
            raise Misconfigured(f"{place}: {name} and {key_of_path} are both set; set one of them", field=name)
        if not isinstance(path, str):
            raise Misconfigured(f"{place}: {key_of_path}: write the path of a file in quotes", field=name)
        origin = SettingOrigin("file", f"{place} ({path})")
        return _read_secret(path, f"{place}: {key_of_path}", name, environ), origin
    if not has_value:
        return None
    value, place = file.values[name].value, file.place_of(name)
    if not file.is_hidden and _contains_secret(kind, name, value):
        raise Misconfigured(
            f"{place}: {name} is a secret, and all users of this machine can read the file; run: "
            f"chmod o-r {file.path}, or set {key_of_path} to the path of a file with the secret",
            field=name,
        )
    return value, SettingOrigin("file", place)


def _contains_secret(kind: type, name: str, value: object) -> bool:
    """Return whether the value is a secret: of a URL, whether it has a password, also in its query."""
    if not is_secret(kind, name):
        return False
    user = str(value).partition("://")[2].rpartition("@")[0]
    return _hints(kind)[name] is Secret or ":" in user or "password" in str(value)


def _read_secret(path: str, place: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the content of a file without its last line end. `$CREDENTIALS_DIRECTORY` is systemd's folder of
    credentials. Raises Misconfigured."""
    credentials = environ.get("CREDENTIALS_DIRECTORY", "")
    for prefix in ("$CREDENTIALS_DIRECTORY/", "${CREDENTIALS_DIRECTORY}/"):
        if credentials and path.startswith(prefix):
            path = f"{credentials}/{path.removeprefix(prefix)}"
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SECRET_FILE + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise Misconfigured(f"{place}: the file {path} cannot be read: {reason}", field=name) from None
    if len(content) > MAX_SECRET_FILE or not text.rstrip("\r\n"):
        what = "is empty" if len(content) <= MAX_SECRET_FILE else f"has more than {MAX_SECRET_FILE} bytes"
        raise Misconfigured(f"{place}: the file {path} {what}; it must contain the secret", field=name)
    return text.rstrip("\r\n")


def _convert(kind: type, name: str, raw: object, origin: SettingOrigin) -> object:
    """Convert a value from text, or from a type of TOML. Raises Misconfigured, without the value of a secret."""
    hint, metadata = _hints(kind)[name], _metadata(kind)[name]
    place = {"flag": origin.name, "file": f"{origin.name}: {name}"}.get(origin.kind, variable_of(name))
    try:
        value = _from_file(raw, hint, metadata) if origin.kind == "file" else _from_text(raw, hint, metadata)
        _check_bounds(value, metadata)
    except (ValueError, OverflowError) as error:
        shown = "the value" if is_secret(kind, name) else repr(raw)[:200]
        raise Misconfigured(f"{place}: {shown} {error}", field=name) from None
    return value


def _from_text(raw: object, hint: type, metadata: Mapping[str, Any]) -> object:
    if hint is bool and isinstance(raw, str):
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False}
        if raw.lower() not in words:
            raise ValueError("is not a boolean; write yes or no")
        return words[raw.lower()]
    if hint is Secret and isinstance(raw, Secret):
        return raw
    try:
        if metadata.get("is_duration") and isinstance(raw, str):
            return parse_duration(raw)
        return hint(raw)
    except (TypeError, ValueError, OverflowError):
        example = ", such as 90, 30s, 10m or 48h" if metadata.get("is_duration") else ""
        raise ValueError(f"is not a valid {_kind_of(hint, metadata)}{example}") from None


def _from_file(raw: object, hint: type, metadata: Mapping[str, Any]) -> object:
    separator = metadata.get("separator")
    if separator and isinstance(raw, list):
        if not all(isinstance(item, str) and item.strip() and separator not in item for item in raw):
            raise ValueError('is not a valid list; write texts, such as ["10.0.0.0/8", "192.168.0.0/16"]')
        return separator.join(raw)
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    fits = {
        bool: isinstance(raw, bool),
        int: isinstance(raw, int) and is_number,
        float: is_number or (isinstance(raw, str) and bool(metadata.get("is_duration"))),
    }.get(hint, isinstance(raw, str))
    if not fits:
        raise ValueError(f"is not a valid {_kind_of(hint, metadata)}; write {_EXAMPLES[hint]}")
    return _from_text(raw, hint, metadata)


_EXAMPLES: Mapping[type, str] = {
    bool: "true or false",
    int: "a number without quotes",
    float: "a number without quotes",
    str: "a text in quotes",
    Path: "a path in quotes",
    Secret: "a text in quotes",
}


def _kind_of(hint: type, metadata: Mapping[str, Any]) -> str:
    return "duration" if metadata.get("is_duration") else {str: "text", Secret: "text"}.get(hint, hint.__name__)


def _check_text(text: str, metadata: Mapping[str, Any]) -> None:
    if "\0" in text:
        raise ValueError("contains a NUL character")
    if "://" in text and not metadata.get("holds_secret"):  # passwords can have brackets
        try:
            urlsplit(text)
        except ValueError:
            raise ValueError("is not a valid address") from None


def _check_bounds(value: object, metadata: Mapping[str, Any]) -> None:
    if isinstance(value, str):
        _check_text(value, metadata)
    choices = metadata.get("choices")
    if choices and value not in choices:
        raise ValueError(f"is unknown; use one of {', '.join(choices)}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    least, most = metadata.get("least", 0), metadata.get("most", math.inf)
    if not math.isfinite(value) or not least <= value <= most:
        limits = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise ValueError(f"is out of range; it must be {limits}")
