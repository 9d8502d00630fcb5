"""What an ensemble is made of, and what it says about its training rows."""

from bdkn.members.design import Design
from bdkn.members.in_sample import InSample, constant_variance
from bdkn.members.member import Member
from bdkn.members.network import NetworkEnsemble, NetworkMember
from bdkn.members.rows import TrainingRows
from bdkn.members.scaling import Standardizer, TargetScaler

__all__ = [
    "Design",
    "InSample",
    "Member",
    "NetworkEnsemble",
    "NetworkMember",
    "Standardizer",
    "TargetScaler",
    "TrainingRows",
    "constant_variance",
]
