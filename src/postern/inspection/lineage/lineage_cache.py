"""Cache of lineage by the text of a statement and the snapshot of the catalogue."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from postern.domain.targets.target_schema import TargetSchema

_SNAPSHOTS: Final = 64
_TEXTS: Final = 1024  # per snapshot
_TEXT_SIZE: Final = 64 * 1024  # characters; longer texts are not cached
_SIZE: Final = 1024 * 1024  # characters of all texts, per snapshot

Found = TypeVar("Found")
Catalogue = TypeVar("Catalogue")


class Readings(Generic[Catalogue, Found]):
    """Cached results for one snapshot, bounded in number and in size."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._found: OrderedDict[tuple[str, Hashable], Found] = OrderedDict()
        self._size = 0

    def __contains__(self, key: tuple[str, Hashable]) -> bool:
        return key in self._found

    def of(self, text: str, doubts: Hashable, read: Callable[[], Found]) -> Found:
        key = (text, doubts)
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key]
        result = read()
        self.keep(text, doubts, result)
        return result

    def keep(self, text: str, doubts: Hashable, result: Found) -> None:
        key = (text, doubts)
        if len(text) > _TEXT_SIZE or key in self._found:
            return
        self._found[key] = result
        self._size += len(text)
        while len(self._found) > _TEXTS or self._size > _SIZE:
            (oldest, _), _ = self._found.popitem(last=False)
            self._size -= len(oldest)


class Snapshots(Generic[Catalogue, Found]):
    def __init__(self, catalogue: Callable[[TargetSchema], Catalogue]) -> None:
        self._catalogue = catalogue
        self._snapshots: OrderedDict[int, Readings[Catalogue, Found]] = OrderedDict()

    def of(self, schema: TargetSchema) -> Readings[Catalogue, Found]:
        """Return the cache of a snapshot by its identity. The cache holds the catalogue, which keeps the snapshot
        alive.
        """
        readings = self._snapshots.get(id(schema))
        if readings is None:
            readings = self._snapshots[id(schema)] = Readings(self._catalogue(schema))
            if len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        self._snapshots.move_to_end(id(schema))
        return readings
