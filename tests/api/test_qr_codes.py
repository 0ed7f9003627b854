"""QR codes as data of an SVG path."""

from __future__ import annotations

import re

import segno

from postern.api.qr_codes import qr_path

URI = "otpauth://totp/Postern:ann%40example.com?secret=JBSWY3DPEHPK3PXP&issuer=Postern"


def test_path_draws_the_modules_of_the_code() -> None:
    size, path = qr_path(URI)
    drawn = [[False] * size for _ in range(size)]
    for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path):
        for column in range(int(x), int(x) + int(width)):
            drawn[int(y)][column] = True
    code = segno.make(URI, error="m", micro=False)
    assert drawn == [[bool(module) for module in row] for row in code.matrix_iter(border=4)]
