"""What the gateway itself asks of CloudWatch: command lines of scripts, and the catalogue of log groups and metrics."""
