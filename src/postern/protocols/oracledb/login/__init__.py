"""Logins to Oracle Database: of clients at the gateway, and of the gateway at targets."""
