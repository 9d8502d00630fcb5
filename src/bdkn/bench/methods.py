"""All that a cell can name as its regressor: ours, and the peers."""

from __future__ import annotations

from typing import Any

from bdkn.bench.peers import PEERS
from bdkn.regressors import REGRESSORS

METHODS: dict[str, type[Any]] = {**REGRESSORS, **PEERS}
