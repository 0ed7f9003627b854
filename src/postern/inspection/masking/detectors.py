"""All detectors, in the one order in which they are applied.

Where two kinds overlap the earlier one wins: what is most certain comes first (an address with its `@`, an account
with check digits of its own country), and telephone numbers, which have no check digit at all, come last.
"""

from __future__ import annotations

from collections.abc import Iterator
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


class Detectors:
    """Those for some kinds of information, with one quick look for all of them."""

    __slots__ = ("_forms", "_which", "may_hold", "types")

    def __init__(self, types: frozenset[InfoType]) -> None:
        forms = [(detector.type, form) for detector in ORDER if detector.type in types for form in detector.forms]
        candidates = [form.candidate for _, form in forms]
        self.types = types
        self.may_hold: Searcher = compile_linear(b"|".join(candidates))
        self._which = compile_set(candidates)
        self._forms = tuple((kind, form.mask) for kind, form in forms)

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
