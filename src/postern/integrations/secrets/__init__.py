"""External stores of secrets: one source for each provider, behind one port.

A source is loaded when a reference names it, so the libraries of unused providers are not needed.
"""
