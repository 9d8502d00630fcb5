"""Model files: arrays and JSON in one file, without pickle."""

from bdkn.persistence.archive import VERSION, Arrays, Document, read, write
from bdkn.persistence.atomic import replace_file, replacing
from bdkn.persistence.tree import pack, unpack

__all__ = ["VERSION", "Arrays", "Document", "pack", "read", "replace_file", "replacing", "unpack", "write"]
