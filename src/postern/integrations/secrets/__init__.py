"""Where secrets are kept when they are not in a connection: one source for each provider, behind one port.

Loaded when a reference names it, so that nobody needs the libraries of providers that are not used.
"""
