"""What an ensemble is made of, and what it says about rows it was trained on or not."""

from bdkn.members.design import Design
from bdkn.members.estimator import EstimatorMember, Said, ask, check_model, is_fixed
from bdkn.members.folds import Folds, OwnFolds, name_key
from bdkn.members.held_out import HeldOut
from bdkn.members.member import Member
from bdkn.members.network import NetworkEnsemble, NetworkMember, networks_of
from bdkn.members.rows import TrainingRows, digest
from bdkn.members.scaling import Standardizer, TargetScaler
from bdkn.members.scores import MemberScores, constant_variance

__all__ = [
    "Design",
    "EstimatorMember",
    "Folds",
    "HeldOut",
    "Member",
    "MemberScores",
    "NetworkEnsemble",
    "NetworkMember",
    "OwnFolds",
    "Said",
    "Standardizer",
    "TargetScaler",
    "TrainingRows",
    "ask",
    "check_model",
    "constant_variance",
    "digest",
    "is_fixed",
    "name_key",
    "networks_of",
]
