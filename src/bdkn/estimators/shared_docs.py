"""Parameter and attribute texts that several regressors share, written once and inserted into their docstrings."""

from __future__ import annotations

import re
from textwrap import indent
from typing import TypeVar

Class = TypeVar("Class", bound=type)

_TEXTS = {
    "network_parameters": """\
n_members : int or "auto", default="auto"
    Number of members of the ensemble, H. "auto" is 11 and, for more than 4000 rows, 8.
hidden_layer_sizes : int, sequence of int or "auto", default="auto"
    Units of each hidden layer; ``()`` is a linear model. "auto" is two layers of 50 units and, for more than 4000
    rows, five of 36, or of 28 in networks whose inputs are divided into bins.
activation : {"relu", "leaky_relu", "tanh", "silu"} or a sequence of them, default=("silu", "relu")
    Activation of the hidden layers. Members take several values in turn.
objective : {"nll", "beta_nll", "mse"} or Objective, default="nll"
    The loss that a network minimises: the Gaussian negative log likelihood with a variance for each row; the same
    with each row's gradient scaled by its variance to the power ``beta``; or the squared error. With "mse" the variance
    of a network is its mean squared error, the same for every row.
beta : float, default=0.5
    Between 0 (as "nll") and 1 (mean trained as by "mse"); for "beta_nll" only.
warmup_epochs : int, default=0
    First epochs on squared error, whatever the objective.
epochs : int or "auto", default="auto"
    Maximal number of passes over the rows. "auto" is 500; for more than 1000 rows, 500 times the square root of 1000
    over their number; for more than 4000, 250 times the fourth root of 4000 over their number.
learning_rate : float, default=0.003
    Learning rate of Adam.
schedule : {"constant", "cosine"}, default="cosine"
    Keep the learning rate, or let it fall to zero along half a cosine wave.
batch_size : int, default=32
    Rows per step.
weight_decay : float or sequence of float, default=(0.0, 0.0, 0.3, 0.0, 1.0, 0.0)
    Decoupled weight decay, as in AdamW. Members take several values in turn, each value once with every activation:
    without decay networks fit data nearly free of noise, with much decay they do not fit the noise.
n_bins : int, sequence of int or "auto", default="auto"
    Number of bins into which each column is divided. In addition to the inputs, a network then sees for each bin how
    far a value lies through it, from 0 to 1, so that it can bend where the data do. 0: the network sees the inputs
    only. Members take several values in turn, as for ``weight_decay``. "auto" is (0, 4, 0, 8, 0, 16) and, for more
    than 4000 rows, (0, 16, 0, 0). There are fewer bins, or none, if columns are many (the bins of all columns add at
    most 128 inputs and, for more than 4000 rows, 256) or rows few (less than 12 per bin).
early_stopping : bool, default=False
    Let every network hold out rows of its own, stop when its loss on them no longer falls, and keep the weights of its
    best epoch.
validation_fraction : float, default=0.1
    Fraction of the rows held out for early stopping.
patience : int, default=20
    Epochs without improvement after which a network stops.
tol : float, default=0.0001
    Decrease of the held-out loss that counts as an improvement.
standardize_y : bool, default=True
    Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
engine : {"fused", "auto", "gpu", "reference", "torch"} or Engine, default="fused"
    The code that trains the networks: compiled code on the CPU, the fastest that is there, programs for a GPU of
    NVIDIA, plain NumPy, PyTorch, or an object with options of its own, such as ``bdkn.TorchEngine(device="cuda")`` or
    ``bdkn.TorchEngine(module=factory)`` for your own ``nn.Module``. "auto" takes a GPU if there is one and the work is
    worth it, else it is "fused". "gpu" takes the CPU, with a warning, where no GPU can be used.
n_jobs : int or None, default=-1
    Number of threads for training, -1 for all cores. The result does not depend on it. Inside a parallel search, 1 is
    best.
random_state : int, Generator, RandomState or None, default=None
    Seed. More members with the same integer begin with the same networks.
verbose : int, default=0
    1 shows a progress bar on standard error.
effort : {"fast", "balanced", "best"}, default="balanced"
    What "auto" means: "balanced" as said above; "fast" a third of the members and half of the epochs, which takes about
    as long as CatBoost; "best" twice as many members. Parameters that are set to numbers are not changed.""",
    "network_attributes": """\
ensemble_ : NetworkEnsemble
    All networks in use with the encoders they were trained under.
members_ : list of NetworkMember
    The members in use, each with ``predict(X) -> (mean, variance)``.
member_names_ : tuple of str
    Names of the members in use. Members that diverged or were not selected are missing; the others keep their numbers.
member_scores_ : MemberScores
    Mean squared error and NLL of each member in scaled units, on held-out rows or, if there are none, on the training
    rows.
loss_curves_ : tuple of ndarray
    Training loss per epoch of each network in use, fold by fold.
loss_curve_ : ndarray
    Their mean.
validation_curves_ : tuple of ndarray
    Loss per epoch on the rows that a network held out; empty without early stopping.
best_epochs_ : ndarray of int
    The epoch, from 0, whose weights each network kept.
n_iter_ : int
    Epochs run by the network that ran longest.""",
    "combination_parameters": """\
prior_variance : {"evidence", "paper"} or float, default="evidence"
    How the prior variance σ_β² of the weights is chosen: by evidence (marginal likelihood), under a weak prior that
    weights deviate from equal ones by about their size; as in the paper (a few steps of an optimiser from 1); or as the
    number given.
tempering : "evidence" or float, default="evidence"
    The power τ of the members' variance in the noise variance: chosen by evidence, under a prior that asks for a gain
    of three units of log evidence per unit of τ; or a number between 0 (constant noise) and 2. With 1 the members'
    variances are used up to a factor.
tails : {"loo", "posterior"}, default="loo"
    Degrees of freedom and scale of predictions: chosen by the leave-one-out score, or those of the posterior.
select_members : bool, default=True
    True: use the members with the best leave-one-out score, out of all, all but the most harmful one, and so on; to
    leave one out must bring one unit of log score, summed over the rows. False: use all members.
target : {"auto", "identity", "log", "logit", "yeo-johnson"}, default="auto"
    The function of the target that is predicted, the link; distributions, means and scores are those of the target
    itself. "log" is for positive targets (or those beyond one bound), "logit" for shares (or between two bounds),
    "yeo-johnson" a power for any skewed target. "auto" chooses by a quick leave-one-out score before anything is
    trained, and takes the identity unless another link is clearly better; "logit" only between bounds that are given
    or evident, see ``upper``.
lower : float or None, default=None
    Lower bound of the target, which targets may reach but not exceed; no probability is predicted beyond it. With
    "auto", 0 is also taken for a bound if many targets are 0 and none is less.
upper : float or None, default=None
    Upper bound of the target, likewise; with "auto", 1 if targets lie between 0 and 1 and many on each of them. Give
    ``lower=0, upper=1`` for other shares: targets between 0 and 1 alone are no evidence of a bound.
density : {"auto", "student-t"}, default="auto"
    The shape of predictions. "auto": a mixture of the Student-t of the linear model and densities of neighbouring
    training rows, if rows left out are predicted clearly better by it, which takes 100 of them; it needs numeric
    columns and members with rows left out. "student-t": the Student-t alone.
evidence : str or float
    Former name of ``prior_variance``; it will be removed in version 0.3.""",
    "combination_attributes": """\
weights_ : ndarray of shape (n_members,)
    Posterior mean of the weights β.
weights_cov_ : ndarray of shape (n_members, n_members)
    Posterior covariance of β, with σ_β² integrated out where it is chosen by evidence; infinite with two degrees of
    freedom or fewer.
members_told_apart_ : bool
    Whether the data tell the members apart. If not, their weights may as well be equal.
intercept_ : float
    The constant that is added to the weighted predictions of the members, of the transformed target.
noise_variance_ : float
    Squared scale of a prediction if β were known, in squared units of the transformed target, where the members' own
    variance is average.
dof_ : float
    Degrees of freedom of every prediction.
prior_variance_ : float
    The prior variance σ_β² in use.
evidence_ : float
    Log marginal likelihood of the targets that the linear model was fitted to, in their own units.
combination_ : Combination
    The linear model: posterior of (β, α, σ²), tempering τ and tails, in scaled units.
link_ : Link
    The function of the target that is predicted.
target_values_ : TargetValues or None
    Values of a lattice, or those that many targets share, with their shares (``values``, ``shares``, ``is_lattice``);
    None if there are none. ``predict_values`` predicts their probabilities.
held_out_ : HeldOut or None
    Predictions of the members in use for held-out rows, and the targets, in scaled units; None if there are none.
density_ : NeighbourDensity or None
    How predictions are mixed from the Student-t and densities of neighbours; None if they are Student-t distributions.
provenance_ : FitProvenance or None
    The seed, the digest of the rows and the parameters of a fit with rows left out, for ``add_members``.""",
    "column_attributes": """\
n_features_in_ : int
    Number of columns of ``X``.
feature_names_in_ : ndarray of str
    Their names, if ``X`` had names.""",
}


def with_shared_docs(cls: Class) -> Class:
    """Replace each line ``<name>`` in the docstring of a class by the shared text of that name."""

    def text(found: re.Match[str]) -> str:
        return indent(_TEXTS[found[2]], found[1])

    cls.__doc__ = re.sub(r"^( *)<(\w+)>$", text, cls.__doc__ or "", flags=re.MULTILINE)
    return cls
