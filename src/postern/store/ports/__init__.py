"""The ports of services, as Protocols: storage, signals, recordings, a clock.

Services import these modules and never SQL. Methods raise Unavailable when the store does not answer.
"""
