import math
import re
from pathlib import Path

import pytest
from made_records import curves, made

from bdkn.errors import InvalidParameterError
from bdkn_paper import paper
from bdkn_paper.analysis.comparison import compare_with_paper
from bdkn_paper.analysis.miss_notes import read_notes
from bdkn_paper.analysis.ranks import rank_table
from bdkn_paper.analysis.reduced_runs import describe_reduced_runs
from bdkn_paper.analysis.results import gather
from bdkn_paper.analysis.variants import VARIANTS, Explanations, explain_misses
from bdkn_paper.data import DATASETS
from bdkn_paper.experiments import load_experiment
from bdkn_paper.pages import ambiguities
from bdkn_paper.pages.conclusions import conclusions_section, wins
from bdkn_paper.pages.reproduction import reproduction_page, write_figures, write_reproduction
from bdkn_paper.pages.variants import variants_section
from bdkn_paper.paper import METRICS
from bdkn_paper.store import records
from bdkn_paper.tables.score_grid import score_grid


def near(setting, dataset, method, shift=0.0):
    """Return records whose means are the paper's, plus a shift."""
    rmse, nll = (paper.scores()[setting, metric, dataset, method] for metric in ("rmse", "nll"))
    return [
        made(
            f"setting{setting}",
            dataset,
            method,
            split,
            rmse=rmse.mean + shift + (-1) ** split * rmse.std,
            nll=nll.mean + shift + (-1) ** split * nll.std,
        )
        for split in range(rmse.splits // 2 * 2)
    ]


RECORDS = [*near(1, "boston", "bdkn"), *near(1, "boston", "de"), *near(2, "yacht", "bdkn", shift=2.0)]
FIGURES = [
    *(
        curves("figure2", f"{m}-{s}", k, [9.0, 3.0 + k], [4.0, 2.0 + k])
        for m in ("bdkn", "de")
        for s in (1, 2)
        for k in range(3)
    ),
    *(curves("figure3", f"bdkn-{h}", k, [9.0, 3.0 + k], [4.0, 2.0 - 1 / h]) for h in (5, 10) for k in range(3)),
]
NOTE = '[setting2.bdkn.yacht]\nrmse = "The records are made up."\n'


def test_the_page_counts_lists_and_explains(tmp_path):
    (tmp_path / "notes.toml").write_text(NOTE)
    page = reproduction_page(RECORDS, read_notes(tmp_path / "notes.toml"))
    assert "| setting1 | BDKN | 2 | 2 | 2 | 0 | 0 | 0 |" in page
    assert "| setting2 | BDKN | 2 | 0 | 0 | 0 | 0 | 2 |" in page
    assert "- BDKN: 2 of 4 scores agree.\n- DE: 0 of 0 scores agree (2 more are heavy-tailed, see below)." in page
    misses = page.partition(": Misses\n")[2].partition("## Appendix")[0].strip().splitlines()
    assert len(misses) == 2
    assert misses[0].startswith("- **setting2, BDKN, Yacht, RMSE** (ours 2.85 ± 0.38, paper 0.85 ± 0.38, +16.2 s.e.): ")
    assert misses[0].endswith(": The records are made up.")
    assert misses[1].endswith(": not explained")
    assert "| Boston | DE | 20 | 20.00 | 10.00 | 0.66 | 0.1 | 0.50% |" in page
    assert "| 1 of ten sets | BDKN |" in page
    assert "![" not in page


def test_the_page_is_the_same_whatever_the_order_of_records():
    assert reproduction_page(RECORDS, {}) == reproduction_page(RECORDS[::-1], {})


def test_without_misses():
    assert ": Misses\n\nThere are none.\n" in reproduction_page(near(1, "boston", "bdkn"), {})


def test_nothing_is_claimed_without_records():
    assert ambiguities.ambiguities([made("smoke", "diabetes", "bdkn")]) == []


def test_raw_targets_are_counted_not_asserted():
    scaled = [made("standardised", "boston", "bdkn-1", k, rmse=9.0 + k, nll=9.0) for k in range(2)]
    found = ambiguities.raw_targets([*RECORDS, *scaled])
    assert found is not None
    assert (
        "With targets in their own units, 2 of these 2 scores agree with the paper; with standardised targets, 0 do."
        in (found.text)
    )
    assert found.tables[0].rows[0] == (("1", "BDKN", "Boston", "RMSE", "3.03 ± 0.78", "3.03 ± 0.78", "9.50 ± 0.50"))
    assert ambiguities.raw_targets(RECORDS) is None


def test_prior_scale():
    odd = made("setting1", "wine", "bdkn")
    odd["model"]["prior_scale"] = 1.2
    other = [made("prior", "yacht", "bdkn-exact", k, nll=-6.87) for k in range(2)]
    found = ambiguities.prior_in_log_space([*RECORDS, odd, *other])
    assert found is not None
    assert "40 of our 41 fits end within 1% of 1.649, all between 1.200 and 1.649" in found.text
    assert found.tables[0].rows == (
        ("Yacht", "paper's tables", "1.48 ± 0.84"),
        ("Yacht", "five steps in log space", "3.48 ± 0.84"),
        ("Yacht", "exact maximum of the evidence", "-6.87 ± 0.00"),
    )
    assert ambiguities.prior_in_log_space([]) is None


def test_constant_on_naval_only_if_it_is():
    constant = [made("setting1", "naval", "bdkn", k, rmse=0.0147, nll=-2.799) for k in range(3)]
    found = ambiguities.constant_on_naval(constant)
    assert found is not None
    assert "our RMSE is 0.01470 ± 0.00000. A constant has an NLL of ½ log(2πe sd²) = -2.80" in found.text
    assert ambiguities.constant_on_naval([made("setting1", "naval", "bdkn", rmse=0.005)]) is None


def test_the_spread_of_naval_is_that_of_the_data():
    fingerprint = DATASETS["naval"].fingerprint
    assert fingerprint is not None
    assert fingerprint.columns[-1][1] == pytest.approx(ambiguities.NAVAL_SD, rel=1e-4)


def test_floors_of_our_own_records():
    found = ambiguities.below_the_floor(RECORDS)
    assert found is not None
    rmse = (3.81, 2.25)
    excess = 2.61 - (0.5 * math.log(2 * math.pi * math.e) + sum(map(math.log, rmse)) / 2)
    assert f"minus this floor is at least {excess:+.4f} (on Boston, setting1)" in found.text
    judged = {row[:3]: row[-1] for row in found.tables[0].rows}
    assert judged["2", "BDKN", "Song"] == "no"
    assert judged["2", "GP", "Yacht"] == "its variance varies"
    assert judged["1", "VBLL", "Naval"] == "unclear, splits differ too much"


def test_sarcos():
    found = ambiguities.sarcos_leak(
        [*near(2, "sarcos", "bdkn"), made("setting2", "sarcos-clean", "bdkn", rmse=2.5, nll=2.4)]
    )
    assert found is not None
    assert found.tables[0].rows == (
        ("2", "BDKN", "RMSE", "2.13 ± 0.03", "2.13 ± 0.03", "2.50 ± 0.00"),
        ("2", "BDKN", "NLL", "2.19 ± 0.02", "2.19 ± 0.02", "2.40 ± 0.00"),
    )
    assert ambiguities.sarcos_leak(near(2, "sarcos", "bdkn")) is None


@pytest.mark.no_cover
def test_written_with_its_figures(tmp_path):
    page = write_reproduction([*RECORDS, *FIGURES], tmp_path / "none.toml", tmp_path / "docs" / "reproduction.md")
    assert "(images/figure2.png)" in page.read_text()
    assert sorted(path.name for path in (page.parent / "images").iterdir()) == [
        f"figure{n}.{kind}" for n in (2, 3) for kind in ("pdf", "png", "svg")
    ]
    first = {path: path.read_bytes() for path in page.parent.rglob("*.*")}
    write_reproduction([*RECORDS, *FIGURES][::-1], tmp_path / "none.toml", page)
    assert {path: path.read_bytes() for path in page.parent.rglob("*.*")} == first


def test_nothing_to_write(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"there must be records of the paper's experiments, .*; got none"):
        write_reproduction([], tmp_path / "notes.toml", tmp_path / "page.md")
    own = [record | {"cell": record["cell"] | {"experiment": "mine"}} for record in RECORDS]
    with pytest.raises(InvalidParameterError, match=r"got none in kept: run .* 'bdkn-paper table' shows your own"):
        write_reproduction(own, tmp_path / "notes.toml", tmp_path / "page.md", "kept")
    with pytest.raises(InvalidParameterError, match="there must be records of figure2 or figure3; got none"):
        write_figures(RECORDS, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[setting3.bdkn.yacht]\nrmse = ""', "an experiment must be one of .*did you mean"),
        ('[setting1.bdnk.yacht]\nrmse = ""', "a method must be one of .*did you mean 'bdkn'"),
        ('[setting1.bdkn.yatch]\nrmse = ""', "a data set must be one of .*did you mean 'yacht'"),
        ('[setting1.bdkn.yacht]\nrmes = ""', "a metric must be one of .*did you mean 'rmse'"),
        ("rmse = 3", "notes.toml: "),
        ("[", "notes.toml: "),
    ],
)
def test_slips_in_the_notes(tmp_path, text, message):
    (tmp_path / "notes.toml").write_text(text)
    with pytest.raises(InvalidParameterError, match=message):
        read_notes(tmp_path / "notes.toml")


def test_the_notes_of_the_repository_can_be_read():
    notes = Path(__file__).parents[2] / "miss_notes.toml"
    if not notes.exists():
        pytest.skip("needs the repository")
    assert all(read_notes(notes).values())


def test_other_methods_are_counted_apart(tmp_path):
    (tmp_path / "notes.toml").write_text('[setting1.bll.wine]\nrmse = "Told."\n')
    records = [*near(1, "boston", "bll"), *near(1, "wine", "bll", shift=0.5), *near(1, "energy", "bll", shift=9.0)]
    page = reproduction_page(records, read_notes(tmp_path / "notes.toml"))
    assert "- BLL: 2 of 4 scores agree (2 more are heavy-tailed, see below)." in page
    assert (
        "the 4 others, 2 agree or are within 3 standard errors. Of the rest, 0 come as close with one change that the "
        "paper leaves open, 0 are between two amounts of a quantity that it leaves open, and 1 have a note; together "
        "that is 75%" in page
    )
    assert "A few diverged splits dominate the means of BLL" in page


def test_ranks_are_over_what_ours_and_the_paper_have():
    records = [
        *(record for method in ("bdkn", "de", "gp") for record in near(1, "boston", method)),
        *near(1, "wine", "bdkn"),
    ]
    table = rank_table(gather(records, "setting1"))
    assert table.title == "Mean ranks over Boston"
    assert table.columns == ("method", "RMSE", "NLL", "paper, RMSE", "paper, NLL")
    assert [row[0] for row in table.rows] == ["BDKN", "DE", "GP"]
    assert [row[1:3] for row in table.rows] == [row[3:] for row in table.rows]
    assert rank_table(gather(near(1, "boston", "bdkn"), "setting1")) is None


def test_equal_scores_share_a_rank_and_what_diverged_is_last():
    scores = {"bdkn": 1.0, "de": 1.0, "gp": math.inf}
    records = [made("converged", "boston", method, rmse=rmse) for method, rmse in scores.items()]
    assert [row[1:] for row in rank_table(gather(records, "converged")).rows] == [
        ("1.5", "2.0"),
        ("1.5", "2.0"),
        ("3.0", "2.0"),
    ]


def test_the_converged_table_is_there_if_it_was_run():
    page = reproduction_page([*RECORDS, made("converged", "boston", "bdkn"), made("converged", "boston", "gp")], {})
    assert ": Converged\n" in page
    assert "### CRPS, converged" in page
    assert ": Converged\n" not in reproduction_page(RECORDS, {})


def test_variants_are_compared_with_the_paper_and_its_setting():
    fresh = [made("artefacts", "boston", "bll-1-fresh-weights", k, rmse=2.0 + k, nll=3.0) for k in range(2)]
    found = variants_section([*near(1, "boston", "bll"), *fresh])
    assert [table.title.partition(":")[0] for table in found.tables] == ["BLL, setting 1"]
    assert found.tables[0].rows[0] == ("Boston", "RMSE", "4.04 ± 1.67", "4.04 ± 1.67", "2.50 ± 0.50")
    assert variants_section(fresh) is None


def test_every_variant_that_is_run_is_described():
    experiment = load_experiment(Path(__file__).parents[2] / "experiments" / "artefacts.toml")
    assert set(experiment.methods) == set(VARIANTS)


def test_methods_are_ranked_and_marked_on_the_splits_they_share():
    """On the one split both have the first is better; the other's mean over more splits is lower."""
    worse = [made("converged", "boston", "bdkn", k, rmse=[1.0, 9.0, 9.0][k]) for k in range(3)]
    results = gather([*worse, made("converged", "boston", "gp", 0, rmse=2.0)], "converged")
    assert [row[1] for row in rank_table(results).rows] == ["1.0", "2.0"]
    assert [entry.mark for entry in score_grid(results, "rmse").entries[0]] == ["best", "second"]
    apart = gather([made("converged", "boston", "bdkn", 0), made("converged", "boston", "gp", 1)], "converged")
    assert rank_table(apart) is None


def changed(method, rmse, spread=0.01, nll=50.0):
    return [made("artefacts", "boston", method, k, rmse=rmse + (-1) ** k * spread, nll=nll) for k in range(20)]


def test_a_miss_that_one_change_reaches_says_so():
    printed = paper.scores()[1, "rmse", "boston", "dkl"].mean
    ours = [*near(1, "boston", "dkl", shift=50.0), *near(1, "yacht", "dkl")]
    cells = compare_with_paper(gather(ours, "setting1"))
    key = ("setting1", "dkl", "boston", "rmse")
    found = explain_misses([*changed("dkl-1-bounded", printed + 0.05), *changed("dkl-1-standardised", 40.0)], cells)
    assert list(found.reached) == [key]
    assert found.between == {}
    assert found.reached[key].startswith("Reached with one change, inputs and features kept within bounds")
    assert found.reached[key].endswith("(20 splits, +0.3 s.e.; artefacts.toml).")
    yacht = made("artefacts", "yacht", "dkl-1-bounded", rmse=99.0, nll=99.0)
    told = explain_misses([*changed("dkl-1-bounded", printed), yacht], cells).reached[key]
    assert told.endswith("With the same change, these no longer agree: Yacht RMSE, Yacht NLL.")
    nothing = Explanations({}, {})
    assert explain_misses(changed("dkl-1-bounded", 40.0), cells) == nothing
    assert explain_misses(changed("dkl-2-bounded", printed), cells) == nothing
    assert explain_misses(changed("dkl-1-bounded", printed, nll=99.0), cells) == nothing  # the NLL is further off
    assert explain_misses(changed("dkl-1-bounded", printed, spread=30.0), cells) == nothing  # agrees with anything
    agreeing = compare_with_paper(gather(near(1, "boston", "dkl"), "setting1"))
    assert explain_misses(changed("dkl-1-bounded", printed), agreeing) == nothing


def test_a_miss_between_less_and_more_of_something_says_so():
    printed = paper.scores()[1, "rmse", "boston", "mfvi"].mean
    cells = compare_with_paper(gather(near(1, "boston", "mfvi", shift=50.0), "setting1"))
    found = explain_misses(changed("mfvi-1-hundred-draws", printed - 2.0), cells)
    assert found.reached == {}
    reason = found.between["setting1", "mfvi", "boston", "rmse"]
    assert reason.startswith("It depends on the number of draws of the weights per step")
    assert "55.45 ± 0.99 with five, 3.45 ± 0.01 with a hundred" in reason
    assert explain_misses(changed("mfvi-1-one-draw", printed + 40.0), cells) == Explanations({}, {})


def test_a_reason_written_down_goes_before_one_that_was_computed():
    printed = paper.scores()[1, "rmse", "boston", "dkl"].mean
    records = [*near(1, "boston", "dkl", shift=50.0), *changed("dkl-1-bounded", printed)]
    key = ("setting1", "dkl", "boston", "rmse")
    page = reproduction_page(records, {})
    assert "Reached with one change" in page
    assert "Of the rest, 1 come as close with one change that the paper leaves open, 0 are between" in page
    page = reproduction_page(records, {key: "Looked into."})
    assert "Reached with one change" not in page
    assert "two amounts of a quantity that it leaves open, and 1 have a note; together that is 50%" in page


def test_reduced_runs_are_named():
    capped = made("setting2", "naval", "mfvi", parameters={"epochs": 1000, "learning_rate": 0.001})
    seen = made("setting2", "protein", "dkl", parameters={"epochs": 500, "n_inducing": 512})
    told = describe_reduced_runs(
        gather([capped, seen, made("setting2", "boston", "bll", parameters={"epochs": 3000})], "setting2")
    )
    assert told == (
        "With fewer epochs than the paper's: MFVI on Naval (1000 of 100000). "
        "With 512 inducing points instead of all rows: DKL on Protein."
    )
    assert told in reproduction_page([capped, seen], {})
    assert "1000 of 100000; whether that is the reason was not tested." in reproduction_page([capped, seen], {})
    assert "not tested" not in reproduction_page(
        [capped], {("setting2", "mfvi", "naval", m): "Known." for m in METRICS}
    )
    assert (
        describe_reduced_runs(gather([made("setting2", "naval", "gp", parameters={"epochs": 3000})], "setting2")) == ""
    )


def contested(other, worse, experiment="setting1", sets=("boston", "yacht")):
    """Return records of BDKN and another method whose scores are higher by so much, nearly alike on every split."""
    rows = {"rows": {"train": 90, "test": 10}}
    return [
        made(experiment, name, method, k, rmse=1.0 + 0.1 * k + d, nll=2.0 + 0.1 * k + d, **rows)
        for name in sets
        for k in range(5)
        for method, d in (("bdkn", 0.0), (other, worse + 0.001 * k))
    ]


def test_wins_and_losses_are_counted_where_they_are_significant():
    results = gather([*contested("bll", 1.0), *contested("bll", -1.0, sets=["wine"])], "setting1")
    assert wins(results, "bll", "rmse") == (2, 1, 3)
    assert wins(gather(contested("bll", -0.002), "setting1"), "bll", "nll") == (0, 0, 2)
    assert wins(results, "vbll", "rmse") == (0, 0, 0)


@pytest.mark.parametrize(
    ("worse", "verdict"),
    [
        (1.0, "holds against BLL (RMSE 2 : 0 of 2, NLL 2 : 0 of 2)."),
        (-1.0, "does not hold against BLL (RMSE 0 : 2 of 2, NLL 0 : 2 of 2)."),
        (-0.002, "undecided against BLL (RMSE 0 : 0 of 2, NLL 0 : 0 of 2)."),
    ],
)
def test_a_verdict_needs_both_metrics(worse, verdict):
    found = conclusions_section([*contested("bll", worse), *contested("bll", worse, sets=["sarcos-clean"])])
    assert f"than last-layer and variational methods**, setting 1: {verdict}" in found.text
    told = "2 : 0" if worse > 0 else "0 : 2" if worse == -1.0 else "0 : 0"
    assert found.tables[0].rows == (("BLL", *[f"{told} of 2"] * 2),)
    assert conclusions_section([]) is None


@pytest.mark.parametrize(("worse", "verdict"), [(-1.0, "holds; ahead of BDKN"), (1.0, "holds"), (0.0, "holds")])
def test_the_process_is_compared(worse, verdict):
    text = conclusions_section(contested("gp", worse)).text
    assert f"**The Gaussian process is a strong baseline**, setting 1: {verdict}; mean ranks by RMSE and NLL" in text


@pytest.mark.parametrize(("aggregate", "verdict"), [(0.3, "holds"), (0.9, "does not hold")])
def test_the_time_of_closed_forms_is_given(aggregate, verdict):
    seconds = {"fit": 60.0, "aggregate": aggregate, "predict_aggregate": 0.0, "predict": 1.0}
    records = [record | {"seconds": seconds} for record in contested("de", 1.0)]
    told = f"**Combining the networks costs next to nothing**, setting 1: {verdict}; closed forms take at most "
    assert f"{told}{aggregate / 60:.2%}" in conclusions_section(records).text


@pytest.mark.parametrize(
    ("ldbll", "mfvi", "verdicts"),
    [
        (
            [3.0, 2.0, 5.0, 5.5, 5.7, 6.0],
            [9.0, 8.0, 7.0, 6.0, 5.0, 4.0],
            ("holds; in figure 2, its median NLL", "holds; in the last"),
        ),
        (
            [3.0, 2.0, 1.0, 0.9, 0.8, 0.1],
            [9.0, 4.0, 4.0, 4.0, 4.0, 4.0],
            ("does not hold; in figure 2, its median NLL", "does not hold; in the last"),
        ),
    ],
)
def test_curves_are_read(ldbll, mfvi, verdicts):
    drawn = [curves("figure2", f"{m}-1", k, c, c) for k in range(2) for m, c in (("ldbll", ldbll), ("mfvi", mfvi))]
    text = conclusions_section([*contested("bll", 1.0), *drawn]).text
    assert f"**LDBLL degrades after a few epochs**, setting 1: {verdicts[0]}" in text
    assert f"**MFVI converges slowly**, setting 1: {verdicts[1]}" in text


PAGE = Path(__file__).parents[3] / "docs" / "reproduction.md"


def test_the_first_page_is_short():
    first, _, rest = PAGE.read_text().partition("\n## Appendix A: ")
    assert len([word for word in first.split() if any(c.isalnum() for c in word)]) <= 300
    assert rest
    for heading in re.findall(r"^## (.*)", rest, flags=re.MULTILINE):
        assert re.match(r"Appendix [B-Z]: ", heading)


def test_links_of_the_first_page_lead_to_appendices():
    page = reproduction_page([*RECORDS, *FIGURES], {})
    titles = re.findall(r"^## (Appendix .*)", page, flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\(#([^)]*)\)", page)) == anchors
    assert titles[0] == "Appendix A: Agreement"


def test_the_first_page_counts_what_the_appendices_list():
    page = reproduction_page([*RECORDS, *contested("bll", 1.0)], {})
    first = page.partition("## Appendix A")[0]
    assert "- BDKN: 2 of 6 agree." in first
    assert f"- Of {page.count('s.e.): ')} misses, {page.count('): not explained')} are unexplained (Appendix " in first
    assert "variational methods | holds |  |  |" in first


@pytest.mark.no_cover
def test_the_page_in_docs_is_that_of_the_records():
    root = PAGE.parents[1]
    page = reproduction_page(records(root / "reproduction/results"), read_notes(root / "reproduction/miss_notes.toml"))
    assert page == PAGE.read_text()
