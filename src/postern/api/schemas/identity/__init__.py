"""Bodies about people, programs, their logins and organisations."""
