"""Bodies about users, programs, their logins and organisations."""
