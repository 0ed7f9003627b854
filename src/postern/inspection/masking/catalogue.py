"""All detectors, in the one order in which they are applied.

Where two kinds overlap the earlier one wins when values are replaced: what holds other values comes first (an address
of the web, a magnetic track), then what is most certain (an address with its `@`, an account with check digits of
its own country). Telephone numbers, which have no check digit at all, come late, and what is looked for behind
telling words last.
"""

from __future__ import annotations

from postern.inspection.masking.card import CREDIT_CARD
from postern.inspection.masking.detector import Detector
from postern.inspection.masking.email import EMAIL_ADDRESS
from postern.inspection.masking.iban import IBAN_CODE
from postern.inspection.masking.ip import IP_ADDRESS
from postern.inspection.masking.phone import PHONE_NUMBER
from postern.inspection.masking.ssn import US_SSN

ORDER: tuple[Detector, ...] = (EMAIL_ADDRESS, IBAN_CODE, CREDIT_CARD, US_SSN, IP_ADDRESS, PHONE_NUMBER)
