"""Reports as HTML pages: about one model, with the model in it, and of ``bdkn demo``, which compares several."""

from bdkn.report.compare import Score, compare
from bdkn.report.constant import ConstantGaussian
from bdkn.report.document import Illustration, Report, trial_report
from bdkn.report.files import check_picture, prepare_folder, write_picture, write_report
from bdkn.report.model_page import Page, make_page, write_page
from bdkn.report.picture import draw_picture
from bdkn.report.split import Split, diabetes
from bdkn.report.tables import Table, score_table, to_markdown, to_text, weight_table
from bdkn.report.trial import Trial, fit_models, warm_up

__all__ = [
    "ConstantGaussian",
    "Illustration",
    "Page",
    "Report",
    "Score",
    "Split",
    "Table",
    "Trial",
    "check_picture",
    "compare",
    "diabetes",
    "draw_picture",
    "fit_models",
    "make_page",
    "prepare_folder",
    "score_table",
    "to_markdown",
    "to_text",
    "trial_report",
    "warm_up",
    "weight_table",
    "write_page",
    "write_picture",
    "write_report",
]
