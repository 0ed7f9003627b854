"""All detectors, in the one order in which they are applied.

Where two kinds overlap the earlier one wins: what is most certain comes first (an address with its `@`, an account
with check digits of its own country), and telephone numbers, which have no check digit at all, come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from postern.domain.masking import InfoType
from postern.inspection.masking.card import CREDIT_CARD
from postern.inspection.masking.detector import Detector, Masked, Searcher, compile_linear, compile_set
from postern.inspection.masking.email import EMAIL_ADDRESS
from postern.inspection.masking.iban import IBAN_CODE
from postern.inspection.masking.ip import IP_ADDRESS
from postern.inspection.masking.phone import PHONE_NUMBER
from postern.inspection.masking.ssn import US_SSN

ORDER: tuple[Detector, ...] = (EMAIL_ADDRESS, IBAN_CODE, CREDIT_CARD, US_SSN, IP_ADDRESS, PHONE_NUMBER)

ROUNDS = 3


def compile_column(value: bytes) -> Searcher:
    """Matches texts that are a value each, with a zero byte between any two."""
    return compile_linear(rb"(?:(?:" + value + rb")\x00)*(?:" + value + rb")")


class Detectors:
    """Those for some kinds of information, with one quick look for all of them."""

    __slots__ = ("_columns", "_forms", "_which", "_whole", "may_hold", "types")

    def __init__(self, types: frozenset[InfoType]) -> None:
        forms = [(detector.type, form) for detector in ORDER if detector.type in types for form in detector.forms]
        candidates = [form.candidate for _, form in forms]
        self.types = types
        self.may_hold: Searcher = compile_linear(b"|".join(candidates))
        self._which = compile_set(candidates)
        self._forms = tuple((kind, form.mask) for kind, form in forms)
        wholes = [(detector.type, detector.whole) for detector in ORDER if detector.type in types]
        self._whole = compile_set([whole.value for _, whole in wholes], whole=True)
        self._columns = tuple((kind, compile_column(whole.value).fullmatch, whole.mask) for kind, whole in wholes)

    def mask_column(self, texts: Sequence[bytes], joined: bytes) -> tuple[InfoType, list[bytes]] | None:
        """What replaces each of the texts, when every one is a value of one kind and nothing else.

        `joined` is the texts with a zero byte between any two; none of them holds one.
        """
        like_first = self._whole(texts[0])
        if like_first is None:
            return None
        kind, fullmatch, mask = self._columns[like_first[0]]
        masked = mask(texts) if fullmatch(joined) else None
        return None if masked is None else (kind, masked)

    def mask(self, text: bytes) -> Iterator[tuple[InfoType, Masked]]:
        """What each form of each kind did to what the ones before it left; only those that found something.

        Where one value stood in the other's way, taking it away shows the other: so it looks again.
        """
        for _ in range(ROUNDS):
            found = False
            # A set that ran out of memory finds nothing, so where it finds nothing all are asked.
            for index in sorted(self._which(text) or range(len(self._forms))):
                kind, mask = self._forms[index]
                masked = mask(text)
                if masked.hits:
                    found = True
                    text = masked.text
                    yield kind, masked
                    if not self.may_hold.search(text):  # most columns hold one kind only
                        return
            if not found:
                return


@lru_cache(maxsize=64)
def detectors_for(types: frozenset[InfoType]) -> Detectors:
    """Shared by all sessions that mask the same kinds."""
    return Detectors(types)
