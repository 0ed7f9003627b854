"""The control service's messages and methods, generated from proto/postern/control/v1/control.proto by
scripts/generate_control.py (`make proto`). Not a line here is written by hand but this."""
