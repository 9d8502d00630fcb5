"""Conformance suites: what every implementation of a protocol of this library must do."""

from bdkn.testing.engines import check_engine

__all__ = ["check_engine"]
