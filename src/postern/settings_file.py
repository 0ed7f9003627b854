"""The configuration file: TOML whose keys are the names of settings.

A table joins its name and its keys by an underscore: `issuer` in `[oidc]` is `oidc_issuer`. The problems of a file are
collected, so that an operator sees all of them at once. `settings.py` checks the values.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from postern.errors import Misconfigured

DEFAULT_PLACE = Path("/etc/postern/postern.toml")
MAX_SIZE = 1024 * 1024  # bytes
_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\s*({_KEYS})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_KEYS})\s*=")


@dataclass(frozen=True, slots=True)
class FileValue:
    """A value as TOML has it. `line` is None if it could not be found."""

    value: object
    line: int | None


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a file says. `is_hidden`: other users cannot read it."""

    path: Path
    values: Mapping[str, FileValue]
    is_hidden: bool
    problems: tuple[Misconfigured, ...]

    def place_of(self, name: str) -> str:
        """Return `/etc/postern/postern.toml:12` for a setting in the file."""
        return _place(self.path, self.values[name].line)


def read_settings_file(path: Path, known: Collection[str]) -> SettingsFile:
    """Read a file with the settings `known`. Raises FileNotFoundError, and Misconfigured if it cannot be read as a
    whole."""
    text, mode = _read(path)
    tables = _parse(path, text)
    lines = _lines(text)
    values: dict[str, FileValue] = {}
    problems: list[Misconfigured] = []
    for keys, value in _flatten(tables):
        name, line = "_".join(keys), lines.get(keys)
        if name not in known:
            problems.append(_unknown(_place(path, line), keys, known))
        elif name in values:
            first = _place(path, values[name].line)
            problems.append(
                Misconfigured(f"{_place(path, line)}: {name} is set already at {first}; remove one of them", field=name)
            )
        else:
            values[name] = FileValue(value, line)
    if mode & stat.S_IWOTH and stat.S_ISREG(mode):
        problems.append(
            Misconfigured(f"{path} can be changed by every user of this machine; run: chmod o-w {path}", field="config")
        )
    return SettingsFile(path, values, not mode & stat.S_IROTH, tuple(problems))


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known name that is most like `name`; empty if none is."""
    import difflib  # only for mistakes

    matches = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    return matches[0] if matches else ""


def _read(path: Path) -> tuple[str, int]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_SIZE + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _unreadable(path, f"{reason}; run this as the user that can read it, or choose another file") from None
    if len(content) > MAX_SIZE:
        raise _unreadable(path, f"it has more than {MAX_SIZE} bytes")
    try:
        return content.decode(), mode
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"it is not UTF-8 at byte {error.start}") from None


def _parse(path: Path, text: str) -> dict[str, object]:
    import tomllib  # only where there is a file: most commands have none

    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for numbers that Python refuses to convert
        raise _unreadable(path, f"it is not TOML: {error}") from None
    except RecursionError:
        raise _unreadable(path, "its values are nested too deeply") from None


def _unreadable(path: Path, why: object) -> Misconfigured:
    return Misconfigured(f"the configuration file {path} cannot be read: {why}", field="config")


def _flatten(tables: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    # Without recursion: dotted keys can be nested more deeply than Python's stack.
    waiting: list[tuple[tuple[str, ...], object]] = [((key,), value) for key, value in reversed(list(tables.items()))]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(((*keys, key), inner) for key, inner in reversed(list(value.items())))
        else:
            yield keys, value


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the lines of keys, which `tomllib` does not tell. A text over several lines can mislead it, so the numbers
    are only for messages."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = _split(header[1])
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_split(assignment[1])), number)
    return lines


def _split(keys: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, keys))


def _place(path: Path, line: int | None) -> str:
    return f"{path}:{line}" if line else str(path)


def _unknown(place: str, keys: tuple[str, ...], known: Collection[str]) -> Misconfigured:
    name = "_".join(keys)
    # `host` in `[gateway]` is meant as `host`.
    similar = keys[-1] if keys[-1] in known else nearest(name[:100], known)
    advice = f"did you mean {similar}?" if similar else "`postern config example --all` lists all"
    return Misconfigured(f"{place}: there is no setting {name[:100]!r}; {advice}", field=name[:100])
