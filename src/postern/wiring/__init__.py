"""The composition root: the only package that can import every other, and the only one that connects them.

It has one module for each kind of process, so that each loads only what it needs.
"""
