"""Parameters of a script: values for its placeholders `:name`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from postern.errors import Invalid

MAX_PARAMETERS = 100
MAX_BOUND_SCRIPT = 256 * 1024  # characters of a script with parameters
MAX_VALUES = 1024 * 1024  # characters of all values together
# Label of a session whose script has parameters: their names, in JSON.
SCRIPT_PARAMETERS_LABEL = "scriptParameters"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

ParameterValue = str | int | float | bool | None
Parameters = Mapping[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder of a script and its value in the database's text form; None is NULL.

    `typed` is the value as it was given, for protocols whose values have types.
    """

    start: int
    end: int
    name: str
    value: str | None
    typed: ParameterValue = None


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of a script that was replaced by a text of `length` characters."""

    start: int
    end: int
    length: int


@dataclass(frozen=True, slots=True)
class BoundScript:
    """A script with its parameters.

    - `text`: what runs. It has the placeholders that the database's protocol binds; others became literals.
    - `placeholders`: those that the protocol binds, in order.
    - `edits`: what differs from the script that its author wrote, in order.
    """

    text: str
    placeholders: tuple[Placeholder, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def sketch(self) -> str:
        """The text for parsers, as long as the script: `$1`, filled with zeros, stands for every placeholder."""
        return self.fill(lambda place: "$" + "1".zfill(place.end - place.start - 1))

    def fill(self, number: Callable[[Placeholder], str]) -> str:
        """Return the text with numbers for placeholders, which are filled with blanks to the length of their names."""
        parts: list[str] = []
        at = 0
        for place in self.placeholders:
            parts += (self.text[at : place.start], number(place).ljust(place.end - place.start))
            at = place.end
        return "".join((*parts, self.text[at:]))

    def part(self, start: int, end: int) -> BoundScript:
        """Return the part between two places, with its placeholders."""
        places = (place for place in self.placeholders if start <= place.start < end)
        return BoundScript(
            self.text[start:end],
            tuple(replace(place, start=place.start - start, end=place.end - start) for place in places),
        )

    def original_offset(self, offset: int) -> int:
        """Return where a character of `text` is in the script that its author wrote."""
        shift = 0  # characters that the edits so far have added
        for edit in self.edits:
            place = edit.start + shift
            if offset < place:
                break
            if offset < place + edit.length:
                return edit.start
            shift += edit.length - (edit.end - edit.start)
        return offset - shift


def check_parameters(parameters: Parameters) -> Parameters:
    """Check names and sizes. Raises Invalid, which does not repeat a value."""
    if len(parameters) > MAX_PARAMETERS:
        raise Invalid(f"parameters: at most {MAX_PARAMETERS}", field="parameters")
    for name, value in parameters.items():
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"parameters: {name[:64]!r} is not a name: at most 63 ASCII letters, digits and _, not beginning with "
                "a digit",
                field="parameters",
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise Invalid(f"parameters: the value of {name!r} must be a finite number", field="parameters")
    if sum(len(text) for value in parameters.values() if (text := text_of(value)) is not None) > MAX_VALUES:
        raise Invalid(f"parameters: at most {MAX_VALUES:,} characters of values together", field="parameters")
    return parameters


def text_of(value: ParameterValue) -> str | None:
    """Return the text form of a value; None for NULL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return None if value is None else str(value)
