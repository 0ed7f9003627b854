"""Archiver: moves sealed segments from local disk to the blob store.

A local file is deleted only once its segment is stored. The pure function `next_step` in `archiver.py` decides what
happens to a file. All state is in the files: a killed archiver resumes at the file it was working on. The package
depends on recordings and ports, never on a vendor.
"""
