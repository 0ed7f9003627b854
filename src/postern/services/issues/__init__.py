"""Issues in the organisation's tracker: their templates, and those that sessions open and close."""
