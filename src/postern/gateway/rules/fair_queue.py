"""A queue in which owners take turns: an owner with many items delays only those."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)
Item = TypeVar("Item")


class FairQueue(Generic[Owner, Item]):
    """First in, first out for each owner; owners take turns."""

    def __init__(self) -> None:
        self._items: OrderedDict[Owner, deque[Item]] = OrderedDict()  # the owner whose turn is next comes first
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def count(self, owner: Owner) -> int:
        """Return how many items of this owner wait."""
        return len(self._items.get(owner, ()))

    def items_before(self, owner: Owner) -> int:
        """Return how many items would be taken before a new one of this owner."""
        count = self.count(owner)
        return count + sum(min(len(items), count + 1) for other, items in self._items.items() if other != owner)

    def put(self, owner: Owner, item: Item) -> None:
        self._items.setdefault(owner, deque()).append(item)
        self._length += 1

    def take(self, may: Callable[[Owner], bool] = lambda _owner: True) -> tuple[Owner, Item] | None:
        """Take the next item of the first owner for whom `may` is True; that owner moves to the end of the line."""
        owner = next((owner for owner in self._items if may(owner)), None)
        if owner is None:
            return None
        items = self._items[owner]
        item = items.popleft()
        self._length -= 1
        if items:
            self._items.move_to_end(owner)
        else:
            del self._items[owner]
        return owner, item

    def remove(self, owner: Owner, item: Item) -> bool:
        """Remove one item. Return False if it does not wait any more."""
        items = self._items.get(owner)
        if items is None or item not in items:
            return False
        items.remove(item)
        self._length -= 1
        if not items:
            del self._items[owner]
        return True
