"""What operators watch: numbers that each process keeps of itself, told to whoever asks on a local socket.

The library that writes Prometheus's format is imported by the API alone, once somebody asks: it costs 70 ms and 3 MB.
"""
