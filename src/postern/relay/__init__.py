"""The relay that gateway and agent share: links, the driver and target logins.

`link.py` does no I/O; only `driver.py` connects sockets to links. Inspection and recording are passed in, so this
package imports neither.
"""
