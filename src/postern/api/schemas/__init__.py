"""Bodies of requests and answers, one file per resource."""
