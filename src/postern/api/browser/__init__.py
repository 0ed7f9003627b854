"""Cookies and HTML pages for browsers."""
