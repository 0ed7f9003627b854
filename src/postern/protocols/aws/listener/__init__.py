"""The gateway's side: how clients of AWS prove themselves."""
