"""Texts in which every sensitive value is known, made anew from a seed: true values, and what only looks like one.

Nothing here is a real person's: people's data are made up by Faker in twenty locales, numbers have the check digits
that python-stdnum computes. The engine under test computes its own, so that each keeps the other honest.
"""
