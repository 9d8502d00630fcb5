import json

import pytest
from typer.testing import CliRunner

from bdkn_paper.cli import app
from bdkn_paper.store import Store, pack


def scores(experiment, method, dataset, split, rmse, nll):
    cell = {
        "experiment": experiment,
        "method": method,
        "dataset": dataset,
        "split": split,
        "regressor": "BDKNRegressor",
        "base": {},
        "parameters": {},
        "seed": 0,
        "kind": "scores",
    }
    return {
        "cell": cell,
        "status": "done",
        "metrics": {"rmse": rmse, "nll": nll, "crps": rmse / 2},
        "model": {"prior_scale": 1.6487},
        "rows": {"train": 90, "test": 10},
        "seconds": {"fit": 6.0, "aggregate": 0.02, "predict_aggregate": 0.01},
        "hardware": {"processor": "Abacus", "cores": 2, "threads": 1},
        "versions": {},
    }


@pytest.fixture
def store(tmp_path):
    kept = Store(tmp_path / "store")
    for split in range(2):
        kept.put(scores("setting1", "bdkn", "boston", split, 2.5 + split, 2.6))
        kept.put(scores("setting1", "de", "boston", split, 3.5 + split, 2.9))
    return kept.folder


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_table_from_a_store_and_from_packed_records(store, tmp_path):
    shown = run("table", "setting1", "--source", store)
    assert shown.exit_code == 0
    assert "Boston" in shown.stdout
    assert shown.stdout.split("Boston")[1].split()[:6] == ["3.00", "±", "0.50", "4.00", "±", "0.50"]
    assert "Boston, BDKN, DE: 2 of 20 splits" in shown.stdout
    pack(Store(store), tmp_path / "results")
    assert run("table", "setting1", "--source", tmp_path / "results").stdout == shown.stdout


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("markdown", "| Boston | **1.500 ± 0.250** | _2.000 ± 0.250_ |"),
        ("latex", r"Boston & \textbf{1.500 $\pm$ 0.250} & \underline{2.000 $\pm$ 0.250} \\"),
        ("csv", "boston,bdkn,crps,1.5,0.25,2"),
    ],
)
def test_formats(store, form, text):
    shown = run("table", "setting1", "--metric", "crps", "--digits", 3, "--format", form, "--source", store)
    assert shown.exit_code == 0
    assert text in shown.stdout.splitlines()


def test_compare(store):
    shown = run("compare", "setting1", "--source", store).stdout
    assert "RMSE, setting1" in shown
    assert "NLL of heavy-tailed methods over splits, setting1" in shown
    assert "Scores that agree with the paper" in shown
    assert "Floor: ½ log(2πe RMSE²)" in shown
    table = run("compare", "setting1", "--format", "csv", "--source", store).stdout
    assert "Boston,BDKN,3.00 ± 0.50,3.03 ± 0.78,-0.030,-0.1,2 s.e." in table.splitlines()


def test_runtime(store):
    shown = run("runtime", "--source", store, "--format", "markdown").stdout
    assert "| Boston | BDKN | 2 | 0.20 | 0.10 | 0.76 | 0.8 | 0.50% |" in shown.splitlines()
    assert "| 1 of ten sets | DE | 2 | 0.20 | 0.10 | 0.66 | 0.7 | 0.50% |" in shown.splitlines()
    assert "Machine: Abacus, 2 cores." in run("runtime", 1, "--source", store).stdout


def test_figures_and_report(store, tmp_path):
    record = scores("figure2", "bdkn-1", "boston", 0, 3.0, 2.0)
    record["cell"]["kind"] = "curves"
    Store(store).put(json.loads(json.dumps(record | {"curves": {"epoch": [1, 2], "rmse": [3, 2], "nll": [3, 2]}})))
    drawn = run("figures", "--source", store, "--out", tmp_path / "images")
    assert drawn.exit_code == 0
    assert drawn.stdout.splitlines() == [str(tmp_path / "images" / f"figure2.{kind}") for kind in ("png", "svg", "pdf")]
    page = tmp_path / "docs" / "page.md"
    written = run("reproduction", "--source", store, "--out", page, "--notes", tmp_path / "none.toml")
    assert written.stdout == f"{page}\n"
    assert page.read_text().startswith("# The paper's tables and figures, reproduced\n")
    assert (page.parent / "images" / "figure2.png").exists()


def test_results(store, tmp_path):
    kept = Store(store)
    for split in range(2):
        kept.put(scores("defaults", "bdkn", "boston", split, 2.0 + split, 2.1) | {"rows": {"train": 455, "test": 51}})
    page = tmp_path / "docs" / "results.md"
    written = run("results", "--source", store, "--out", page)
    assert (written.exit_code, written.stdout) == (0, f"{page}\n")
    assert page.read_text().startswith("# The defaults compared with the paper, the literature and peers\n")
    assert "- BDKN: Boston 2 of 20; Concrete 0 of 20;" in page.read_text()
    assert (page.parent / "images" / "results.png").exists()
    assert not (page.parent / "outside.md").exists()
    (store / "outside.ndjson").write_text(
        '{"set": "boston", "split": "gap 0", "method": "BDKN", "nll": 2.0, "crps": 1.0, "coverage_0.9": 0.8}\n'
    )
    assert run("results", "--source", store, "--out", page).exit_code == 0
    assert "| gap | BDKN | 80.0 %, 1 set | Boston 80.0 % |" in page.read_text()
    assert (page.parent / "outside.md").read_text().startswith("# Random, gap and tail splits\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("table", "setting9"), "experiment must be one of 'setting1'; got 'setting9'"),
        (("table", "setting1", "--metric", "rsme"), "did you mean 'rmse'"),
        (("table", "setting1", "--format", "html"), "--format must be one of 'text', 'markdown', 'latex', 'csv'"),
        (("compare", "setting1", "--format", "html"), "--format must be one of"),
        (("runtime", "2"), "experiment must be one of 'setting1'; got 'setting2'"),
        (("figures",), "there must be records of figure2 or figure3; got none"),
        (
            ("results",),
            "there must be records of defaults or peers; got none: run 'bdkn-paper run reproduction",
        ),
    ],
)
def test_what_cannot_be_is_told(store, words, message, tmp_path):
    place = ("--out", tmp_path / "images") if words[0] in ("figures", "results") else ()
    shown = run(*words, "--source", store, *place)
    assert shown.exit_code == 2
    assert message in shown.stderr


def test_no_records(tmp_path):
    shown = run("table", "setting1", "--source", tmp_path / "nowhere")
    assert shown.exit_code == 2
    assert "run 'bdkn-paper run FILE' first" in shown.stderr
    (tmp_path / "empty").mkdir()
    for words in (("table", "setting1"), ("runtime",), ("reproduction", "--out", tmp_path / "p.md")):
        shown = run(*words, "--source", tmp_path / "empty")
        assert shown.exit_code == 2
        assert "got none" in shown.stderr
        assert "run 'bdkn-paper run" in shown.stderr
