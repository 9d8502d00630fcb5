"""Conformance suites: functions that check whether a class of your own does what this library relies on.

They raise AssertionError with the statement that does not hold, and need no test framework.
"""

from __future__ import annotations

from bdkn.testing.encoders import check_encoder, check_member
from bdkn.testing.engines import check_engine
from bdkn.testing.predictives import check_predictive
from bdkn.testing.regressors import check_regressor

__all__ = ["check_encoder", "check_engine", "check_member", "check_predictive", "check_regressor"]
