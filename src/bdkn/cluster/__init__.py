"""Fits on a Dask cluster: rows stay on the workers, in chunks, and the states of networks travel to them.

It begins where a Dask data frame is fitted while a client is active. The sample, the states of networks and statistics
of (H + 1)² numbers are all that reaches the client. Every task is a pure function: Dask computes again what is lost
with a worker, and the result has the bits of a fit on one machine.
"""

from bdkn.cluster.cluster_rows import ClusterRows, cluster_of

__all__ = ["ClusterRows", "cluster_of"]
