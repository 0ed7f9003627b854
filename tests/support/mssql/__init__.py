"""A server of Microsoft's TDS protocol for tests, written from the MS-TDS specification, over SQLite.

It shares no code with the product, so that its codec checks the product's. Real drivers are tested against it directly.
"""
