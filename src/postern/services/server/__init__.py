"""The organisation and the server: settings, features, the audit log and the server log."""
