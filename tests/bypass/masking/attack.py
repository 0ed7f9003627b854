"""The form of an attack, and the documented channels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

NAME_LENGTH = 120  # characters


class Channel(StrEnum):
    """Facts about a masked column that a statement can still learn. docs/security.md lists these channels."""

    FILTERING = "filtering"  # which rows there are: where, having, joins, limit
    ORDERING = "ordering"
    GROUPING = "grouping"  # group by, distinct, set operations: which rows become one
    COUNTING = "counting"  # count(), row counts in tags and plans, generated rows
    ERRORS = "errors"  # that there is an error, and which; never its text
    PARKED = "parked"  # a value that a statement stores where no rule looks for it


@dataclass(frozen=True, slots=True)
class Attack:
    """Statements of one session. The client reads the answer to each before it sends the next.

    `channel` is the documented channel that the attack uses: its answers can differ, and one must.
    """

    name: str
    group: str
    steps: tuple[str, ...]
    channel: Channel | None = None
    is_core: bool = False


def attacks(listed: Mapping[str, Iterable[str | tuple[str, ...]]], most_core: int = 2) -> list[Attack]:
    """Build attacks from a table: group, then the statements of each attack.

    A group whose name is that of a channel uses this channel. The first attacks of a group belong to the fast core.
    """
    found = []
    for group, lines in listed.items():
        channel = Channel(group) if group in list(Channel) else None
        for number, line in enumerate(lines):
            steps = (line,) if isinstance(line, str) else line
            name = f"{group}: {' ; '.join(' '.join(step.split()) for step in steps)}"
            found.append(Attack(_cut(name), group, steps, channel, number < most_core))
    return _with_unique_names(found)


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH // 2]} … {name[-NAME_LENGTH // 2 :]}"


def _with_unique_names(listed: list[Attack]) -> list[Attack]:
    seen: dict[str, int] = {}
    found = []
    for attack in listed:
        seen[attack.name] = count = seen.get(attack.name, 0) + 1
        name = attack.name if count == 1 else f"{attack.name} #{count}"
        found.append(Attack(name, attack.group, attack.steps, attack.channel, attack.is_core))
    return found
