"""Model files: arrays and JSON in one file, without pickle."""

from bdkn.persistence.archive import VERSION, Arrays, Document, read, write
from bdkn.persistence.tree import pack, unpack

__all__ = ["VERSION", "Arrays", "Document", "pack", "read", "unpack", "write"]
