"""The composition root: the only room that may import every other, and the only one that puts them together.

One module for each kind of process, so that each loads what it needs and no more.
"""
