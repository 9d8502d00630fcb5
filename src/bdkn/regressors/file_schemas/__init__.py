"""Schemas of all classes that a fitted state may consist of: nothing else is made from a file."""

from bdkn.persistence.schema import Schema
from bdkn.regressors.file_schemas import baselines, inference, links, members, networks, saved, shape, states, tables

SCHEMAS: dict[type, Schema] = {
    schema.kind: schema
    for room in (baselines, inference, links, members, networks, saved, shape, states, tables)
    for schema in room.SCHEMAS
}
"""By class."""

__all__ = ["SCHEMAS"]
