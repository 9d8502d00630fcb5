"""A fitted model as data that a page computes with: the what-if of a report."""

from bdkn.report.what_if.payload import MOST_BYTES, Payload, payload_of

__all__ = ["MOST_BYTES", "Payload", "payload_of"]
