"""The engine that both gateway and agent host: links, the driver, logins.

`link.py` is sans-IO; `driver.py` is the only place where sockets meet links. Inspection and
recording are handed in, so this room knows neither.
"""
