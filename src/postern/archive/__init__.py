"""The archivist: segments move from the machine's disk to the blob store, and are deleted only once they are there.

What is to be done next is decided by pure steps (`plan`, in `archiver.py`). Files are the truth: it can be
killed anywhere and begins again at the file it was at. Knows recordings and ports, never a vendor.
"""
