"""Routes, one file per resource: they translate between HTTP and services, and contain no decisions."""
