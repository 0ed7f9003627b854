"""CloudWatch on HTTP: which operation a request is for, in which codec, and what is masked in its answer."""
