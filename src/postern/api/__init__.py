"""The HTTP management API: routes, schemas, authentication, one error shape."""
