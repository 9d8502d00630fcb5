"""Other people's regressors, fitted and scored on the same splits as ours; they come with ``bdkn[peers]``."""

from bdkn.bench.peers.bde import BDE
from bdkn.bench.peers.boosting import CatBoost, NGBoost
from bdkn.bench.peers.mixture import SampledMixture
from bdkn.bench.peers.peer import Peer

PEERS: dict[str, type[Peer]] = {"BDE": BDE, "CatBoost": CatBoost, "NGBoost": NGBoost}

__all__ = ["BDE", "PEERS", "CatBoost", "NGBoost", "Peer", "SampledMixture"]
