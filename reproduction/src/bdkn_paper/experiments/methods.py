"""All that a cell can name as its regressor: ours, and the peers."""

from __future__ import annotations

from typing import Any

from bdkn.regressors import REGRESSORS
from bdkn_paper.peers import PEERS

METHODS: dict[str, type[Any]] = {**REGRESSORS, **PEERS}
