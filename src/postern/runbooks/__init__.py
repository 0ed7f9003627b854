"""Runbook language: a template, its parameters, and the script that it renders with values.

Pure functions. `integrations.git` fetches the files, and `services.runbooks` decides which users can run them.
"""
