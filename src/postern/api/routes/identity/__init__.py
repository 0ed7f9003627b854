"""Routes about users, programs, their logins and organisations."""
