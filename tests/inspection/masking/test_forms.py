"""Every notation of each information type, with its score without and with a word that names the type."""

from __future__ import annotations

import pytest
from bench.labelled.names import TELLING

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.catalogue import ORDER
from postern.inspection.masking.detectors import detectors_for

COLUMNS = {kind: names for kind, (names, _) in TELLING.items()} | {
    InfoType.AWS_ACCESS_KEY: ("secret_access_key", "awsSecretKey"),  # a key's identifier is found without a word
}
WORD = 0.4  # what a word that speaks for a value adds to the score

# Type, text, score. The value is the whole text, or the part between « and ».
FORMS = [
    ("PRIVATE_KEY", "-----BEGIN " + "PRIVATE KEY-----\nOLTmUuRNpI3DZ4mDicTZ\n-----END PRIVATE KEY-----", 1.0),
    ("URL_PASSWORD", "mysql://app:«K9e4XM3V2Q45Qp»@db/x", 0.95),
    ("STORAGE_SIGNED_URL", "https://shop.blob.core.windows.net/c/x.csv?sv=2022-11-02&se=2026-01-01&sr=b&sig=ezoHNf1SA73"
     "l8FOs4RYsorHPMsx9AEEUaG0PMZxg%3D", 1.0),
    ("URL", "https://example.org/list/posts?id=316", 0.6),
    ("HTTP_COOKIE", "Cookie: «session=K9e4XM3V2Q45Qp7DcwZOy2rH; theme=dark»", 0.95),
    ("AUTHORIZATION_HEADER", "Authorization: Basic «dXNlcjpwYXNz»", 0.95),
    ("AUTHORIZATION_HEADER", "bearer «abcdefghijklmnopqrstuvwxyz»", 0.9),
    ("CREDIT_CARD_TRACK", "%B2221113815635008^RLIPLH/USGON^2812101000072914714?", 0.95),
    ("CREDIT_CARD_TRACK", ";5593080592042505=2712101000065050251?", 0.95),
    ("EMAIL_ADDRESS", "ann@example.com", 0.95),
    ("JSON_WEB_TOKEN", "eyJhbGciOiAiSFMyNTYifQ." + "eyJzdWIiOiAiMzE2MDUzMDUifQ."
     "2FCZCVqjABZaZwNvm1QNa48L4hEkF5w92fc4F85uEY0", 0.95),
    ("AWS_ACCESS_KEY", "AKIA" + "KEUCRLBQBNCCN2DH", 0.95),
    ("AWS_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+" + "bPxRfiCYEXAMPLEKEY", 0.3),
    ("GITHUB_TOKEN", "ghp_" + "K9e4XM3V2Q45Qp7DcwZOy2rH87JoBadNX33C", 0.95),
    ("GITLAB_TOKEN", "glpat-" + "K9e4XM3V2Q45Qp7DcwZO", 0.95),
    ("SLACK_TOKEN", "xoxb-" + "316053050400-481269539082-87JoBadNX33CgQJaSInhFZWs", 0.95),
    ("SLACK_TOKEN", "https://hooks.slack.com/services/«T00000000/B00000000/" + "XXXXXXXXXXXXXXXXXXXXXXXX»", 0.95),
    ("STRIPE_KEY", "sk_live_" + "K9e4XM3V2Q45Qp7DcwZOy2rH", 0.95),
    ("STRIPE_KEY", "whsec_" + "abcdefghijklmnopqrstuvwx", 0.95),
    ("GOOGLE_API_KEY", "AIza" + "K9e4XM3V2Q45Qp7DcwZOy2rH87JoBadNX33", 0.95),
    ("GOOGLE_API_KEY", "GOCSPX-" + "abcdefghijklmnopqrst", 0.95),
    ("GOOGLE_API_KEY", "ya29." + "abcdefghijklmnopqrst", 0.95),
    ("IBAN_CODE", "PL17 1957 5181 6104 4291 5596 5860", 0.95),
    ("CREDIT_CARD", "5593080592042505", 0.8),
    ("US_SSN", "332-20-6469", 0.8),
    ("US_SSN", "332206469", 0.2),
    ("IP_ADDRESS", "c2f5:11b0:5dd:f85f:e91d:46b8:a214:81cb", 0.9),
    ("IP_ADDRESS", "105.207.178.217", 0.7),
    ("PHONE_NUMBER", "+44 20 9823 6041", 0.8),
    ("PHONE_NUMBER", "(910) 500-0120", 0.6),
    ("PHONE_NUMBER", "020 7596 5050", 0.6),
    ("MAC_ADDRESS", "f4:30:a6:e0:a0:26", 0.8),
    ("IMEI", "35-316053-050400-5", 0.7),
    ("IMEI", "353160530504005", 0.4),
    ("VIN", "4YD1U3KX872425059", 0.7),
    ("VIN", "4YD1U3KX872425050", 0.3),
    ("SWIFT_CODE", "IDQBGBCP", 0.3),
    ("CUSIP", "B5N2JC1H4", 0.3),
    ("ISIN", "GB9308059203", 0.6),
    ("CRYPTO", "12HqGicBUqtMJCnYtuQDxVe7J5JgsPzJK9", 0.95),
    ("CRYPTO", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", 0.95),
    ("CRYPTO", "0x6116d13af96f0d4214d29a58103a65974cb398eb", 0.7),
    ("US_BANK_ROUTING", "119308059", 0.3),
    ("US_BANK_NUMBER", "9308059204", 0.15),
    ("UK_NHS", "316 053 0507", 0.65),
    ("UK_NHS", "316-053-0507", 0.4),
    ("UK_NHS", "3160530507", 0.3),
    ("UK_NINO", "JG930805D", 0.8),
    ("ES_NIF", "31605305Q", 0.8),
    ("ES_NIE", "Y9308059L", 0.85),
    ("IT_FISCAL_CODE", "NBMGBM81C13A425K", 0.95),
    ("IT_DRIVER_LICENSE", "U13160530N", 0.3),
    ("IT_VAT_CODE", "IT31605300651", 0.8),
    ("IT_VAT_CODE", "31605300651", 0.3),
    ("IT_PASSPORT", "ID6053050", 0.2),
    ("IT_IDENTITY_CARD", "CA31605JB", 0.3),
    ("IT_IDENTITY_CARD", "CA1234567", 0.2),
    ("PL_PESEL", "60031360531", 0.4),
    ("FI_PERSONAL_IDENTITY_CODE", "130360-668U", 0.9),
    ("SE_PERSONNUMMER", "19600313-6055", 0.7),
    ("SE_PERSONNUMMER", "197905243684", 0.45),
    ("SE_PERSONNUMMER", "7701172046", 0.3),
    ("NO_FODSELSNUMMER", "130360 33325", 0.8),
    ("NO_FODSELSNUMMER", "13036033325", 0.6),
    ("DE_TAX_ID", "63 491 587 269", 0.75),
    ("DE_TAX_ID", "63491587269", 0.4),
    ("FR_NIR", "1 68 01 38 455 561 21", 0.95),
    ("FR_NIR", "181031080592080", 0.8),
    ("NL_BSN", "787331600", 0.3),
    ("NL_BSN", "7873.31.600", 0.6),
    ("BE_NATIONAL_NUMBER", "60.03.13-667.30", 0.95),
    ("BE_NATIONAL_NUMBER", "60031366730", 0.45),
    ("CH_AHV", "756.3160.5305.01", 0.95),
    ("CH_AHV", "7563160530501", 0.7),
    ("TR_ID_NUMBER", "69308059202", 0.45),
    ("SG_NRIC_FIN", "T3160530F", 0.8),
    ("SG_UEN", "T11LL5139F", 0.8),
    ("SG_UEN", "201093080W", 0.6),
    ("SG_UEN", "53123450M", 0.45),
    ("AU_ABN", "42 316 053 050", 0.8),
    ("AU_ABN", "42316053050", 0.45),
    ("AU_ACN", "316 053 059", 0.45),
    ("AU_ACN", "316053059", 0.3),
    ("AU_TFN", "650 979 120", 0.45),
    ("AU_TFN", "650979120", 0.3),
    ("AU_MEDICARE", "4930 80596 2", 0.65),
    ("AU_MEDICARE", "4930805962", 0.3),
    ("IN_PAN", "IDQPN3050L", 0.8),
    ("IN_AADHAAR", "7930 8059 2047", 0.8),
    ("IN_AADHAAR", "793080592047", 0.4),
    ("IN_VEHICLE_REGISTRATION", "DL05KB8059", 0.55),
    ("IN_VOTER", "IDQ0530504", 0.3),
    ("IN_PASSPORT", "E3308057", 0.3),
    ("CN_RESIDENT_ID", "110101198103130531", 0.9),
    ("KR_RRN", "600313-1053054", 0.8),
    ("KR_RRN", "600313-1053055", 0.45),
    ("KR_RRN", "6003131053054", 0.4),
    ("ZA_ID_NUMBER", "6003136053087", 0.7),
    ("US_ITIN", "942-76-2558", 0.7),
    ("US_ITIN", "942762558", 0.3),
    ("US_PASSPORT", "L00481269", 0.3),
    ("US_PASSPORT", "493217034", 0.15),
    ("US_DRIVER_LICENSE", "I1605305", 0.25),
    ("US_DRIVER_LICENSE", "58365548", 0.15),
    ("CA_SIN", "493-080-592", 0.5),
    ("CA_SIN", "650 251 457", 0.45),
    ("CA_SIN", "493080592", 0.3),
    ("BR_CPF", "316.053.050-73", 0.95),
    ("BR_CPF", "31605305073", 0.4),
    ("BR_CNPJ", "31.605.305/0001-50", 0.95),
    ("BR_CNPJ", "31605305000150", 0.4),
    ("MX_CURP", "JAHF600313HNLDBG07", 0.95),
    ("CL_RUT", "12.930.805-2", 0.8),
    ("CL_RUT", "12930805-2", 0.45),
    ("AR_CUIT", "27-93080592-6", 0.8),
    ("AR_CUIT", "27930805926", 0.4),
    ("MEDICAL_LICENSE", "AN3160532", 0.5),
    ("FDA_CODE", "3160-5305-04", 0.3),
    ("US_NPI", "2930805926", 0.3),
    ("FIRST_NAME", "Julio", 0.15),
    ("LAST_NAME", "Meyer", 0.15),
    ("PASSWORD", "L9g4YN3W2S45", 0.15),
    ("DATE_OF_BIRTH", "1981-03-13", 0.2),
    ("DATE_OF_BIRTH", "31.12.1980", 0.2),
    ("DATE_OF_BIRTH", "December 31, 1980", 0.2),
    ("DATE_OF_BIRTH", "12:34:56", 0.2),
    ("AGE", "«42» years old", 0.7),
    ("AGE", "42", 0.2),
    ("GENDER", "F", 0.2),
    ("STREET_ADDRESS", "97 King's Avenue", 0.7),
    ("STREET_ADDRESS", "Hauptstraße 445", 0.7),
    ("STREET_ADDRESS", "332 rue de la Paix", 0.7),
    ("STREET_ADDRESS", "Schlossallee", 0.15),
    ("MEDICAL_RECORD_NUMBER", "31605305", 0.2),
    ("PASSPORT", "539082113", 0.2),
    ("DATE_TIME", "1962-06-19T01:58:32Z", 0.8),
    ("DATE_TIME", "03/13/1991", 0.6),
    ("DATE_TIME", "January 22, 2000", 0.8),
    ("DATE_TIME", "12:34:56", 0.6),
]  # fmt: skip

# Type, text: here the text itself names the value, which is the part between « and ».
NAMED = [
    ("FIRST_NAME", 'first_name: "«Julio»"'),
    ("FIRST_NAME", "Vorname=«Julio»"),
    ("LAST_NAME", "surname: «Meyer»"),
    ("LAST_NAME", "family-name = «Meyer»"),
    ("PASSWORD", "password=«hunter2»"),
    ("PASSWORD", '"pwd": "«hunter2»"'),
]


def split_marked(text: str) -> tuple[bytes, bytes]:
    """Return the text without its marks, and the value between them."""
    before, mark, rest = text.partition("«")
    if not mark:
        return text.encode(), text.encode()
    value, _, behind = rest.partition("»")
    return f"{before}{value}{behind}".encode(), value.encode()


def finds(kind: str, text: bytes, *, threshold: float = 0.5, column: str = "") -> list[tuple[bytes, float]]:
    detectors = detectors_for(frozenset({InfoType(kind)}), threshold=threshold, column=column)
    return [(text[one.start : one.end], round(one.score, 2)) for one in detectors.find(text)]


@pytest.mark.parametrize(("kind", "marked", "score"), FORMS)
def test_value_is_found_down_to_the_threshold_of_its_form(kind: str, marked: str, score: float) -> None:
    text, value = split_marked(marked)
    assert finds(kind, text, threshold=score) == [(value, score)]
    assert finds(kind, text, threshold=min(score + 0.01, 1.01)) == []
    assert finds(kind, text) == ([(value, score)] if score >= 0.5 else [])


@pytest.mark.parametrize(("kind", "marked", "score"), FORMS)
def test_word_that_names_the_type_raises_the_score(kind: str, marked: str, score: float) -> None:
    text, value = split_marked(marked)
    has_words = next(detector.words for detector in ORDER if detector.type == kind)
    raised = round(min(1.0, score + WORD), 2) if has_words else score
    for column in COLUMNS[InfoType(kind)]:
        assert finds(kind, text, threshold=raised, column=column) == [(value, raised)], column
        assert finds(kind, text, threshold=min(raised + 0.01, 1.01), column=column) == [], column


@pytest.mark.parametrize(("kind", "marked"), NAMED)
def test_value_that_the_text_itself_names_is_found(kind: str, marked: str) -> None:
    text, value = split_marked(marked)
    assert finds(kind, text, threshold=0.9) == [(value, 1.0)]


def test_every_form_of_every_type_has_an_example() -> None:
    examples = [(kind, split_marked(marked)[0]) for kind, marked in [(one[0], one[1]) for one in FORMS] + NAMED]
    missing = [
        f"{detector.type}, form {number}"
        for detector in ORDER
        for number, form in enumerate(detector.forms)
        if not any(kind == detector.type and form.find(text) for kind, text in examples)
    ]
    assert missing == []
