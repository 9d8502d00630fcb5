"""Records of cells, in a store of one file per cell or packed into one file per experiment."""

from bdkn_paper.store.cell import Cell
from bdkn_paper.store.packed import pack, record_folder, records, unpack
from bdkn_paper.store.record import Record
from bdkn_paper.store.store import Store

__all__ = ["Cell", "Record", "Store", "pack", "record_folder", "records", "unpack"]
