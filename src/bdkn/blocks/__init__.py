"""Rows in blocks: what a fit does with rows that do not fit into memory.

One pass over the rows draws a sample, which stays in memory: encoders, the link, the choice of members, tempering and
the shape of predictions are learned from it. Another pass writes all rows, encoded and shuffled, to a temporary file in
chunks. Networks are trained on one chunk after the other, and what they predict for rows left out is added to
statistics. The fold, the chunk and the sample of a row are functions of its number, so that nothing depends on how rows
come: on the size of blocks, on files or on partitions.
"""

from bdkn.blocks.chunks import Chunk, ChunkFile, write_chunks
from bdkn.blocks.encoding import KnownInputs, RowEncoding
from bdkn.blocks.left_out import LeftOut, Summary, statistics_of_chunks
from bdkn.blocks.numbering import CHUNK_ROWS, MemberFolds
from bdkn.blocks.places import KeptChunks, RowPlace, ThisMachine
from bdkn.blocks.plan import BlockPlan, RowNumberFolds
from bdkn.blocks.sample import Sample, counted_blocks, draw_sample
from bdkn.blocks.training import train_on_chunks

__all__ = [
    "CHUNK_ROWS",
    "BlockPlan",
    "Chunk",
    "ChunkFile",
    "KeptChunks",
    "KnownInputs",
    "LeftOut",
    "MemberFolds",
    "RowEncoding",
    "RowNumberFolds",
    "RowPlace",
    "Sample",
    "Summary",
    "ThisMachine",
    "counted_blocks",
    "draw_sample",
    "statistics_of_chunks",
    "train_on_chunks",
    "write_chunks",
]
