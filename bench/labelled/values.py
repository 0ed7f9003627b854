"""True values of each kind."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable

from bench.labelled import nations
from bench.labelled.maker import CAPITALS, LOCALES, WORD, Maker, grouped
from stdnum import luhn

from postern.domain.rules.masking import InfoType


def _email(m: Maker) -> str:
    return str(m.faker().ascii_email())


def _card_number(m: Maker) -> str:
    prefix, length = m.random.choice([("4", 16), ("51", 16), ("55", 16), ("2221", 16), ("37", 15), ("6011", 16)])
    body = prefix + m.digits(length - len(prefix) - 1)
    return body + luhn.calc_check_digit(body)


def _card(m: Maker) -> str:
    number = _card_number(m)
    if len(number) == 16 and m.random.random() < 0.5:
        return grouped(number, (4, 4, 4, 4), m.one_of(" ", "-"))
    return number


def _phone(m: Maker) -> str:
    area, exchange, line = m.random.randint(201, 989), m.random.randint(200, 999), m.digits(4)
    return m.one_of(
        f"+1 ({area}) {exchange}-{line}", f"({area}) {exchange}-{line}", f"{area}-{exchange}-{line}",
        f"+44 20 {m.digits(4)} {m.digits(4)}", f"020 7{m.digits(3)} {m.digits(4)}", f"+49 30 {m.digits(8)}",
        f"+33 1 {m.digits(2)} {m.digits(2)} {m.digits(2)} {m.digits(2)}", f"+55 11 9{m.digits(4)}-{m.digits(4)}",
        f"+91 9{m.digits(4)} {m.digits(5)}", f"+81 3-{m.digits(4)}-{m.digits(4)}",
        f"+48 {m.digits(3)} 555 {m.digits(3)}",
    )  # fmt: skip


def _ssn(m: Maker) -> str:
    return f"{m.random.randint(1, 665):03}-{m.random.randint(1, 99):02}-{m.random.randint(1, 9999):04}"


def _iban(m: Maker) -> str:
    locales = ("de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL", "en_GB", "no_NO", "fi_FI", "tr_TR")
    value = str(m.fakers[LOCALES.index(m.random.choice(locales))].iban())
    return value if m.random.random() < 0.5 else " ".join(value[at : at + 4] for at in range(0, len(value), 4))


def _ip(m: Maker) -> str:
    return str(m.faker().ipv4()) if m.random.random() < 0.6 else str(m.faker().ipv6())


def _track(m: Maker) -> str:
    card = _card_number(m)
    if m.random.random() < 0.5:
        return f"%B{card}^{m.pick(CAPITALS, 6)}/{m.pick(CAPITALS, 5)}^2{m.random.randint(6, 9)}121010000{m.digits(8)}?"
    return f";{card}=2{m.random.randint(6, 9)}121010000{m.digits(8)}?"


def _base58(data: bytes) -> str:
    data += hashlib.sha256(hashlib.sha256(data).digest()).digest()[:4]
    value, text = int.from_bytes(data, "big"), ""
    while value:
        value, rest = divmod(value, 58)
        text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[rest] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def _crypto(m: Maker) -> str:
    if m.random.random() < 0.3:
        return "0x" + m.pick("0123456789abcdef", 40)
    return _base58(m.random.choice([b"\x00", b"\x05"]) + m.random.randbytes(20))


def _url(m: Maker) -> str:
    return f"https://{m.fakers[0].domain_name()}/{m.fakers[0].uri_path()}?id={m.digits(3)}"


def _signed(m: Maker) -> str:
    name, key = m.pick("abcdefghij", 8), m.pick("0123456789abcdef", 64)
    return m.one_of(
        f"https://{name}.s3.amazonaws.com/a/{name}.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={name}"
        f"&X-Amz-Expires=3600&X-Amz-Signature={key}",
        f"https://storage.googleapis.com/{name}/x.csv?X-Goog-Credential={name}&X-Goog-Signature={key}",
        f"https://{name}.blob.core.windows.net/c/x.csv?sv=2022-11-02&se=2026-01-01&sr=b&sig={m.pick(WORD, 40)}%3D",
    )


def _cookie(m: Maker) -> str:
    return f"session={m.pick(WORD, 24)}; theme=dark"


def _vin(m: Maker) -> str:
    letters = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ"
    values = {c: int(v) for c, v in zip(letters, "012345678912345678123457923456789", strict=True)}
    vin = m.one_of("1", "2", "4", "5") + m.pick(letters[10:], 1) + m.pick(letters, 6) + "0" + m.pick(letters, 2)
    vin += m.digits(6)
    weights = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
    rest = sum(values[c] * w for c, w in zip(vin, weights, strict=True)) % 11
    return vin[:8] + "0123456789X"[rest] + vin[9:]


def _private_key(m: Maker) -> str:
    body = base64.b64encode(m.random.randbytes(96)).decode()
    name = m.one_of("RSA ", "EC ", "", "OPENSSH ")
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {name}PRIVATE KEY-----\n{lines}\n-----END {name}PRIVATE KEY-----"


def _jwt(m: Maker) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    return f"{head}.{part(json.dumps({'sub': m.digits(8)}).encode())}.{part(m.random.randbytes(32))}"


def _slack(m: Maker) -> str:
    return f"xoxb-{m.digits(12)}-{m.digits(12)}-{m.pick(WORD, 24)}"


def _street_address(m: Maker) -> str:
    """An address as people write it in three languages."""
    number, name = str(m.random.randint(1, 999)), m.one_of("Baker", "Old Mill", "King's", "Maple")
    german = m.one_of("Haupt", "Bahnhof", "Linden") + m.one_of("straße", "weg", "allee")
    return m.one_of(
        f"{number} {name} {m.one_of('Street', 'Avenue', 'Road', 'Lane')}",
        f"{german} {number}",
        f"{number} rue {m.one_of('de la Paix', 'Victor Hugo', 'du Moulin')}",
    )


MAKERS: dict[InfoType, Callable[[Maker], str]] = {
    InfoType.EMAIL_ADDRESS: _email,
    InfoType.CREDIT_CARD: _card,
    InfoType.US_SSN: _ssn,
    InfoType.PHONE_NUMBER: _phone,
    InfoType.IBAN_CODE: _iban,
    InfoType.IP_ADDRESS: _ip,
    InfoType.CREDIT_CARD_TRACK: _track,
    InfoType.SWIFT_CODE: lambda m: m.pick(CAPITALS, 4) + m.one_of("DE", "US", "GB") + m.pick(CAPITALS, 2),
    InfoType.CUSIP: nations.cusip_number,
    InfoType.ISIN: nations.isin_number,
    InfoType.CRYPTO: _crypto,
    InfoType.URL: _url,
    InfoType.STORAGE_SIGNED_URL: _signed,
    InfoType.HTTP_COOKIE: _cookie,
    InfoType.MAC_ADDRESS: lambda m: m.faker().mac_address(),
    InfoType.IMEI: nations.imei_number,
    InfoType.VIN: _vin,
    InfoType.PRIVATE_KEY: _private_key,
    InfoType.JSON_WEB_TOKEN: _jwt,
    InfoType.URL_PASSWORD: lambda m: m.pick(WORD, 14),
    InfoType.AUTHORIZATION_HEADER: lambda m: m.pick(WORD, 32),
    InfoType.AWS_ACCESS_KEY: lambda m: "AKIA" + m.pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    InfoType.GITHUB_TOKEN: lambda m: "ghp_" + m.pick(WORD, 36),
    InfoType.GITLAB_TOKEN: lambda m: "glpat-" + m.pick(WORD, 20),
    InfoType.SLACK_TOKEN: _slack,
    InfoType.STRIPE_KEY: lambda m: "sk_live_" + m.pick(WORD, 24),
    InfoType.GOOGLE_API_KEY: lambda m: "AIza" + m.pick(WORD, 35),
    InfoType.MEDICAL_LICENSE: nations.dea,
    InfoType.FDA_CODE: lambda m: m.one_of(
        f"{m.digits(4)}-{m.digits(4)}-{m.digits(2)}", f"{m.digits(5)}-{m.digits(3)}-{m.digits(2)}"
    ),
    InfoType.US_NPI: nations.npi,
    InfoType.US_ITIN: nations.itin_number,
    InfoType.US_PASSPORT: lambda m: m.one_of(m.digits(9), m.pick(CAPITALS, 1) + m.digits(8)),
    InfoType.US_DRIVER_LICENSE: lambda m: m.one_of(m.pick(CAPITALS, 1) + m.digits(7), m.digits(8)),
    InfoType.US_BANK_NUMBER: lambda m: m.digits(m.random.randint(8, 12)),
    InfoType.US_BANK_ROUTING: nations.routing,
    InfoType.CA_SIN: nations.sin,
    InfoType.BR_CPF: nations.cpf_number,
    InfoType.BR_CNPJ: nations.cnpj_number,
    InfoType.MX_CURP: nations.curp_number,
    InfoType.CL_RUT: nations.rut_number,
    InfoType.AR_CUIT: nations.cuit_number,
    InfoType.UK_NHS: nations.nhs,
    InfoType.UK_NINO: nations.nino,
    InfoType.ES_NIF: nations.nif,
    InfoType.ES_NIE: nations.nie,
    InfoType.IT_FISCAL_CODE: nations.fiscal,
    InfoType.IT_DRIVER_LICENSE: lambda m: "U1" + m.digits(7) + m.pick(CAPITALS, 1),
    InfoType.IT_VAT_CODE: nations.vat_number,
    InfoType.IT_PASSPORT: lambda m: m.pick(CAPITALS, 2) + m.digits(7),
    InfoType.IT_IDENTITY_CARD: lambda m: "CA" + m.digits(5) + m.pick(CAPITALS, 2),
    InfoType.PL_PESEL: nations.pesel_number,
    InfoType.FI_PERSONAL_IDENTITY_CODE: nations.hetu_number,
    InfoType.SE_PERSONNUMMER: nations.personnummer,
    InfoType.NO_FODSELSNUMMER: nations.fnr,
    InfoType.DE_TAX_ID: nations.steuer,
    InfoType.FR_NIR: nations.nir,
    InfoType.NL_BSN: nations.bsn_number,
    InfoType.BE_NATIONAL_NUMBER: nations.belgian,
    InfoType.CH_AHV: nations.ahv,
    InfoType.TR_ID_NUMBER: nations.turkish,
    InfoType.SG_NRIC_FIN: nations.nric,
    InfoType.SG_UEN: nations.uen_number,
    InfoType.AU_ABN: nations.abn_number,
    InfoType.AU_ACN: nations.acn_number,
    InfoType.AU_TFN: nations.tfn_number,
    InfoType.AU_MEDICARE: nations.medicare,
    InfoType.IN_PAN: nations.pan,
    InfoType.IN_AADHAAR: nations.aadhaar,
    InfoType.IN_VEHICLE_REGISTRATION: nations.plate,
    InfoType.IN_VOTER: lambda m: m.pick(CAPITALS, 3) + m.digits(7),
    InfoType.IN_PASSPORT: lambda m: m.pick("ABCDEFGHJKLMN", 1) + m.one_of(*"123456789") + m.digits(5) + "7",
    InfoType.CN_RESIDENT_ID: nations.ric_number,
    InfoType.KR_RRN: nations.rrn_number,
    InfoType.ZA_ID_NUMBER: nations.south_african,
    InfoType.FIRST_NAME: lambda m: m.faker().first_name(),
    InfoType.LAST_NAME: lambda m: m.faker().last_name(),
    InfoType.DATE_OF_BIRTH: lambda m: "{}-{:02}-{:02}".format(*m.day()),
    InfoType.AGE: lambda m: str(m.random.randint(1, 99)),
    InfoType.GENDER: lambda m: m.one_of("male", "female", "F", "m", "non-binary"),
    InfoType.STREET_ADDRESS: _street_address,
    InfoType.PASSPORT: lambda m: m.one_of(
        m.pick(CAPITALS, 2) + m.digits(7), m.pick(CAPITALS, 1) + m.digits(8), m.digits(9)
    ),
    InfoType.MEDICAL_RECORD_NUMBER: lambda m: m.one_of(m.digits(8), "MRN" + m.digits(6), "H-" + m.digits(7)),
    InfoType.PASSWORD: lambda m: m.pick(WORD + "!$%", 12),
    InfoType.DATE_TIME: nations.moment,
}
