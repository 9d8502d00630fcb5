"""Members: what an ensemble consists of, the folds they are trained on, and their predictions for held-out rows."""

from bdkn.members.design import Design
from bdkn.members.encoding import Encoder, Encoders, Standardizer, TargetScaler, encode
from bdkn.members.estimator import EstimatorMember, MeanStd, Member, check_model, is_fixed, predict_mean_std
from bdkn.members.folds import Folds, OwnFolds, name_key
from bdkn.members.held_out import HeldOut, MemberScores, constant_variance
from bdkn.members.network import FoldGrid, NetworkEnsemble, NetworkGrid, NetworkMember

__all__ = [
    "Design",
    "Encoder",
    "Encoders",
    "EstimatorMember",
    "FoldGrid",
    "Folds",
    "HeldOut",
    "MeanStd",
    "Member",
    "MemberScores",
    "NetworkEnsemble",
    "NetworkGrid",
    "NetworkMember",
    "OwnFolds",
    "Standardizer",
    "TargetScaler",
    "check_model",
    "constant_variance",
    "encode",
    "is_fixed",
    "name_key",
    "predict_mean_std",
]
