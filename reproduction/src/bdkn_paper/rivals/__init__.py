"""Rivals: models of other libraries, each fitted by a process in an environment of its own.

``worker.py`` and ``adaptors.py`` run there and import neither this package nor ``bdkn``; ``Rival`` is the peer that
talks to them. ``reproduction/rivals`` has a requirements file for each environment.
"""

from bdkn_paper.rivals.rival import RIVALS, Rival

__all__ = ["RIVALS", "Rival"]
