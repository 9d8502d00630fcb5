"""Members of an ensemble: encoders, folds, cross-fitting, held-out predictions and selection."""

from bdkn.members.columns import Columns
from bdkn.members.cross_fitting import (
    Candidates,
    FoldGrid,
    FoldNetworks,
    NetworkGrid,
    fold_networks,
    predict_held_out,
    train_folds,
)
from bdkn.members.design import Design
from bdkn.members.encoding import Encoder, Encoders, Standardizer, TargetScaler, encode
from bdkn.members.estimator import EstimatorMember, MeanStd, Member, check_model, is_fixed, predict_mean_std
from bdkn.members.fold_plan import FoldPlan
from bdkn.members.folds import Folds, OwnFolds, name_key
from bdkn.members.held_out import HeldOut, MemberScores, constant_variance
from bdkn.members.linear import fit_linear, needs_linear
from bdkn.members.network import NetworkEnsemble, NetworkMember
from bdkn.members.provenance import FitProvenance, Seed, seed_sequence
from bdkn.members.selection import DEPRECATED, CombinationSettings, select_and_combine, sound_members
from bdkn.members.splitting import Splitting
from bdkn.members.support import Nearest, Support
from bdkn.members.widening import Widening, gate

__all__ = [
    "DEPRECATED",
    "Candidates",
    "Columns",
    "CombinationSettings",
    "Design",
    "Encoder",
    "Encoders",
    "EstimatorMember",
    "FitProvenance",
    "FoldGrid",
    "FoldNetworks",
    "FoldPlan",
    "Folds",
    "HeldOut",
    "MeanStd",
    "Member",
    "MemberScores",
    "Nearest",
    "NetworkEnsemble",
    "NetworkGrid",
    "NetworkMember",
    "OwnFolds",
    "Seed",
    "Splitting",
    "Standardizer",
    "Support",
    "TargetScaler",
    "Widening",
    "check_model",
    "constant_variance",
    "encode",
    "fit_linear",
    "fold_networks",
    "gate",
    "is_fixed",
    "name_key",
    "needs_linear",
    "predict_held_out",
    "predict_mean_std",
    "seed_sequence",
    "select_and_combine",
    "sound_members",
    "train_folds",
]
