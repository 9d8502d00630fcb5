"""Regressors of other libraries, evaluated on the same splits; install them with ``bdkn-paper[peers]``."""

from bdkn_paper.peers.bde import BDE
from bdkn_paper.peers.boosting import CatBoost, NGBoost
from bdkn_paper.peers.mixture import SampledMixture
from bdkn_paper.peers.peer import Peer

PEERS: dict[str, type[Peer]] = {"BDE": BDE, "CatBoost": CatBoost, "NGBoost": NGBoost}

__all__ = ["BDE", "PEERS", "CatBoost", "NGBoost", "Peer", "SampledMixture"]
