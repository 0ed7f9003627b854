"""The steady state of links: requests as statements, items as rows, sealed keys of pages."""
