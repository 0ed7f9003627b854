"""Numbers that states, banks and exchanges give out, with their check digits."""

from __future__ import annotations

from bench.labelled.maker import CAPITALS, Maker, grouped
from stdnum import cusip, ean, isin, luhn, verhoeff
from stdnum.ar import cuit
from stdnum.au import abn, acn, tfn
from stdnum.br import cnpj, cpf
from stdnum.cl import rut
from stdnum.cn import ric
from stdnum.es import dni
from stdnum.fi import hetu
from stdnum.iso7064 import mod_11_10
from stdnum.it import codicefiscale
from stdnum.kr import rrn
from stdnum.mx import curp
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.sg import uen
from stdnum.tr import tckimlik
from stdnum.us import itin


def npi(m: Maker) -> str:
    body = m.one_of("1", "2") + m.digits(8)
    return body + luhn.calc_check_digit("80840" + body)


def dea(m: Maker) -> str:
    body = m.digits(6)
    total = sum(map(int, body[::2])) + 2 * sum(map(int, body[1::2]))
    return m.pick("ABFMPR", 1) + m.pick(CAPITALS, 1) + body + str(total % 10)


def routing(m: Maker) -> str:
    body = m.one_of("01", "02", "11", "12", "26", "31") + m.digits(6)
    total = sum(int(digit) * weight for digit, weight in zip(body, (3, 7, 1, 3, 7, 1, 3, 7), strict=True))
    return body + str(-total % 10)


def sin(m: Maker) -> str:
    body = m.one_of("1", "2", "4", "5", "6", "7") + m.digits(7)
    return grouped(body + luhn.calc_check_digit(body), (3, 3, 3), m.one_of("-", " "))


def curp_number(m: Maker) -> str:
    year, month, day = m.day(1940, 1999)
    vowels, consonants = "AEIU", "BCDFGHJKLM"
    body = (
        m.pick(consonants, 1) + m.pick(vowels, 1) + m.pick(consonants, 2) + f"{year % 100:02}{month:02}{day:02}"
        + m.one_of("H", "M") + m.one_of("DF", "JC", "NL") + m.pick(consonants, 3) + "0"
    )  # fmt: skip
    return body + curp.calc_check_digit(body)


def rut_number(m: Maker) -> str:
    body = m.one_of("7", "8", "12", "15", "20") + m.digits(6)
    return rut.format(body + rut.calc_check_digit(body))


def cuit_number(m: Maker) -> str:
    body = m.one_of("20", "27", "30") + m.digits(8)
    return grouped(body + cuit.calc_check_digit(body), (2, 8, 1), "-")


def nhs(m: Maker) -> str:
    def make() -> str:
        body = m.digits(9)
        check = 11 - sum(int(digit) * (10 - place) for place, digit in enumerate(body)) % 11
        return body + ("0" if check == 11 else "x" if check == 10 else str(check))

    return grouped(m.until(make, str.isdigit), (3, 3, 4), " ")


def nino(m: Maker) -> str:
    number = m.one_of("AB", "CE", "JG", "PR", "SL") + m.digits(6) + m.pick("ABCD", 1)
    return number if m.random.random() < 0.5 else grouped(number, (2, 2, 2, 2, 1), " ")


def nif(m: Maker) -> str:
    body = m.digits(8)
    return body + dni.calc_check_digit(body)


def nie(m: Maker) -> str:
    place, body = m.random.randrange(3), m.digits(7)
    return "XYZ"[place] + body + dni.calc_check_digit(str(place) + body)


def fiscal(m: Maker) -> str:
    year, month, day = m.day()
    body = m.pick("BCDFGLMNPRST", 6) + f"{year % 100:02}" + "ABCDEHLMPRST"[month - 1]
    body += f"{day + m.random.choice([0, 40]):02}" + m.pick("ABCDEFGHIL", 1) + m.digits(3)
    return body + codicefiscale.calc_check_digit(body)


def vat_number(m: Maker) -> str:
    body = m.digits(7) + f"{m.random.randint(1, 100):03}"
    return "IT" + body + luhn.calc_check_digit(body)


def pesel_number(m: Maker) -> str:
    year, month, day = m.day(1940, 1999)
    body = f"{year % 100:02}{month:02}{day:02}{m.digits(4)}"
    return body + pesel.calc_check_digit(body)


def hetu_number(m: Maker) -> str:
    year, month, day = m.day(1940, 1999)
    date, order = f"{day:02}{month:02}{year % 100:02}", f"{m.random.randint(2, 899):03}"
    return f"{date}-{order}{hetu._calc_checksum(date + order)}"


def personnummer(m: Maker) -> str:
    year, month, day = m.day(1940, 1999)
    body = f"{year % 100:02}{month:02}{day:02}{m.digits(3)}"
    return m.one_of("", str(year // 100)) + body[:6] + "-" + body[6:] + luhn.calc_check_digit(body)


def fnr(m: Maker) -> str:
    def make() -> str:
        year, month, day = m.day(1940, 1999)
        body = f"{day:02}{month:02}{year % 100:02}{m.random.randint(0, 499):03}"
        body += fodselsnummer.calc_check_digit1(body)
        return body + fodselsnummer.calc_check_digit2(body)

    return m.until(make, lambda number: len(number) == 11)


def steuer(m: Maker) -> str:
    order = m.random.sample("123456789", 9)
    body = "".join([*order, m.random.choice(order)])
    number = body + mod_11_10.calc_check_digit(body)
    return number if m.random.random() < 0.5 else grouped(number, (2, 3, 3, 3), " ")


def nir(m: Maker) -> str:
    year, month, _ = m.day()
    body = f"{m.one_of('1', '2')}{year % 100:02}{month:02}{m.random.randint(1, 95):02}{m.digits(3)}{m.digits(3)}"
    number = body + f"{97 - int(body) % 97:02}"
    return number if m.random.random() < 0.5 else grouped(number, (1, 2, 2, 2, 3, 3, 2), " ")


def bsn_number(m: Maker) -> str:
    return m.until(lambda: m.digits(9), bsn.is_valid)


def belgian(m: Maker) -> str:
    year, month, day = m.day(1940, 1999)
    body = f"{year % 100:02}{month:02}{day:02}{m.random.randint(1, 997):03}"
    number = body + f"{97 - int(body) % 97:02}"
    return f"{number[:2]}.{number[2:4]}.{number[4:6]}-{number[6:9]}.{number[9:]}"


def ahv(m: Maker) -> str:
    body = "756" + m.digits(9)
    return grouped(body + ean.calc_check_digit(body), (3, 4, 4, 2), ".")


def turkish(m: Maker) -> str:
    body = m.one_of(*"123456789") + m.digits(8)
    return body + tckimlik.calc_check_digits(body)


def nric(m: Maker) -> str:
    body = m.digits(7)
    total = sum(int(digit) * weight for digit, weight in zip(body, (2, 7, 6, 5, 4, 3, 2), strict=True))
    first = m.one_of("S", "T", "F", "G")
    letters = "JZIHGFEDCBA" if first in "ST" else "XWUTRQPNMLK"
    return first + body + letters[(total + (4 if first in "TG" else 0)) % 11]


def uen_number(m: Maker) -> str:
    body = m.one_of(f"{m.random.randint(1990, 2023)}{m.digits(5)}", f"T{m.random.randint(8, 23):02}LL{m.digits(4)}")
    return body + (uen.calc_local_company_check_digit(body) if body[0] != "T" else uen.calc_other_check_digit(body))


def abn_number(m: Maker) -> str:
    body = m.digits(9)
    return grouped(abn.calc_check_digits(body) + body, (2, 3, 3, 3), " ")


def acn_number(m: Maker) -> str:
    body = m.digits(8)
    return grouped(body + acn.calc_check_digit(body), (3, 3, 3), " ")


def tfn_number(m: Maker) -> str:
    return grouped(m.until(lambda: m.digits(9), tfn.is_valid), (3, 3, 3), " ")


def medicare(m: Maker) -> str:
    body = m.one_of("2", "3", "4", "5", "6") + m.digits(7)
    check = sum(int(digit) * weight for digit, weight in zip(body, (1, 3, 7, 9, 1, 3, 7, 9), strict=True)) % 10
    return f"{body[:4]} {body[4:]}{check} {m.random.randint(1, 5)}"


def pan(m: Maker) -> str:
    return m.pick(CAPITALS, 3) + m.pick("PCHF", 1) + m.pick(CAPITALS, 1) + m.digits(4) + m.pick(CAPITALS, 1)


def aadhaar(m: Maker) -> str:
    body = m.one_of(*"23456789") + m.digits(10)
    return grouped(body + verhoeff.calc_check_digit(body), (4, 4, 4), " ")


def plate(m: Maker) -> str:
    parts = m.one_of("KA", "MH", "DL", "TN"), f"{m.random.randint(1, 20):02}", m.pick(CAPITALS, 2), m.digits(4)
    return m.one_of("", " ", "-").join(parts)


def ric_number(m: Maker) -> str:
    year, month, day = m.day()
    body = f"{m.one_of('110101', '310101', '440106', '320106')}{year}{month:02}{day:02}{m.digits(3)}"
    return body + ric.calc_check_digit(body + "0")


def rrn_number(m: Maker) -> str:
    year, month, day = m.day(1940, 1999)
    body = f"{year % 100:02}{month:02}{day:02}{m.one_of('1', '2')}{m.digits(5)}"
    number = body + rrn.calc_check_digit(body)
    return number[:6] + "-" + number[6:]


def south_african(m: Maker) -> str:
    year, month, day = m.day(1940, 1999)
    body = f"{year % 100:02}{month:02}{day:02}{m.digits(4)}08"
    return body + luhn.calc_check_digit(body)


def moment(m: Maker) -> str:
    year, month, day = m.day(1950, 2024)
    clock = f"{m.random.randint(0, 23):02}:{m.random.randint(0, 59):02}:{m.random.randint(0, 59):02}"
    return m.one_of(
        f"{year}-{month:02}-{day:02}", f"{year}-{month:02}-{day:02}T{clock}Z", f"{year}-{month:02}-{day:02} {clock}",
        f"{day:02}.{month:02}.{year}", f"{month:02}/{day:02}/{year}", m.fakers[0].date_object().strftime("%B %d, %Y"),
    )  # fmt: skip


def cnpj_number(m: Maker) -> str:
    body = m.digits(8) + "0001"
    return cnpj.format(body + cnpj.calc_check_digits(body))


def cpf_number(m: Maker) -> str:
    body = m.digits(9)
    return cpf.format(body + cpf._calc_check_digits(body))


def cusip_number(m: Maker) -> str:
    body = m.pick("0123456789ABCDEFGHJKLMNPQRSTUVWXYZ", 8)
    return body + cusip.calc_check_digit(body)


def isin_number(m: Maker) -> str:
    body = m.one_of("US", "DE", "GB", "FR") + m.digits(9)
    return body + isin.calc_check_digit(body)


def imei_number(m: Maker) -> str:
    body = "35" + m.digits(12)
    return body + luhn.calc_check_digit(body)


def itin_number(m: Maker) -> str:
    return m.until(lambda: f"9{m.digits(2)}-{m.digits(2)}-{m.digits(4)}", itin.is_valid)
