"""Chance with a seed, and people of twenty locales."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from faker import Faker

LOCALES = (
    "en_US", "en_GB", "en_AU", "en_IN", "en_CA", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL", "pt_BR", "sv_SE",
    "no_NO", "fi_FI", "tr_TR", "ja_JP", "zh_CN", "ko_KR", "es_MX",
)  # fmt: skip
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORD = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Maker:
    """Makes values from one seed; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fakers = [Faker(locale) for locale in LOCALES]
        for place, faker in enumerate(self.fakers):
            faker.seed_instance(seed * 1000 + place)

    def faker(self) -> Faker:
        return self.random.choice(self.fakers)

    def digits(self, count: int) -> str:
        return "".join(self.random.choices("0123456789", k=count))

    def pick(self, characters: str, count: int) -> str:
        return "".join(self.random.choices(characters, k=count))

    def one_of(self, *values: str) -> str:
        return self.random.choice(values)

    def day(self, first: int = 1940, last: int = 2005) -> tuple[int, int, int]:
        return self.random.randint(first, last), self.random.randint(1, 12), self.random.randint(1, 28)

    def until(self, make: Callable[[], str], valid: Callable[[str], bool]) -> str:
        """A value that is valid, of many that may be."""
        while not valid(value := make()):
            pass
        return value


def grouped(number: str, sizes: tuple[int, ...], separator: str) -> str:
    parts, at = [], 0
    for size in sizes:
        parts.append(number[at : at + size])
        at += size
    return separator.join(parts)
