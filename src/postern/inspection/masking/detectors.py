"""All detectors, in the one order in which they are applied.

Where two kinds overlap the earlier one wins: what is most certain comes first (an address with its `@`, an account
with check digits of its own country), and telephone numbers, which have no check digit at all, come last.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from postern.domain.masking import InfoType
from postern.inspection.masking.card import CREDIT_CARD
from postern.inspection.masking.detector import Detector, Searcher, compile_linear
from postern.inspection.masking.email import EMAIL_ADDRESS
from postern.inspection.masking.iban import IBAN_CODE
from postern.inspection.masking.ip import IP_ADDRESS
from postern.inspection.masking.phone import PHONE_NUMBER
from postern.inspection.masking.ssn import US_SSN

ORDER: tuple[Detector, ...] = (EMAIL_ADDRESS, IBAN_CODE, CREDIT_CARD, US_SSN, IP_ADDRESS, PHONE_NUMBER)


class Detectors:
    """Those for some kinds of information, with one quick look for all of them."""

    __slots__ = ("_each", "may_hold", "types")

    def __init__(self, types: frozenset[InfoType]) -> None:
        chosen = [detector for detector in ORDER if detector.type in types]
        self.types = types
        self.may_hold: Searcher = compile_linear(b"|".join(detector.candidate for detector in chosen))
        self._each = tuple((detector, compile_linear(detector.candidate)) for detector in chosen)

    def for_text(self, text: bytes) -> Iterable[Detector]:
        """Those whose candidates occur in `text`, in order."""
        return (detector for detector, candidate in self._each if candidate.search(text))


@lru_cache(maxsize=64)
def detectors_for(types: frozenset[InfoType]) -> Detectors:
    """Shared by all sessions that mask the same kinds."""
    return Detectors(types)
