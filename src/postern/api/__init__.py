"""The HTTP management API: routes, schemas, authentication, and one form of errors."""
