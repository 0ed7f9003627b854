"""The demo target: a real PostgreSQL with a small shop in it, so that a first look needs nothing else.

It runs as a process of its own, on loopback, with random passwords, never as root. Everything in it is
made up: no row describes anybody, no address reaches anybody, no number can be charged or called.
"""
