"""The demo target: a PostgreSQL database with fictional shop data, so that a first look needs nothing else.

It runs as a separate process, on loopback, with random passwords, never as root. All data is fictional: no row
describes a real person, and no address, card or telephone number exists.
"""
