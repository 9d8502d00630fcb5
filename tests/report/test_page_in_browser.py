"""The page in a browser: what it computes, how it looks, and how it is operated."""

import shutil
from contextlib import contextmanager
from functools import cache

import numpy as np
import pandas as pd
import pytest

from bdkn import BDKNRegressor, DeepEnsembleRegressor
from bdkn.report import evaluation as drivers
from bdkn.report.page import evaluate, write_page
from bdkn.report.what_if import codes_of, values_of

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH"),
    pytest.mark.usefixtures("small_forests"),
]

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SMALL = {"n_members": 3, "epochs": 25, "effort": "fast", "random_state": 0, "cv": 3}
LEVELS = (0.01, 0.05, 0.5, 0.9, 0.99)
EVIL = "</script><script>alert(1)</script>"
EVIL_VALUE = '"><img src=x onerror=alert(2)>'


def numbers(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 2] = np.round(2 * X[:, 2])
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2, rng


def frame(n, seed):
    rng = np.random.default_rng(seed)
    area = rng.gamma(6.0, 15.0, n).round()
    street = rng.integers(0, 30, n)
    days = rng.integers(0, 900, n)
    words = rng.choice(["new", "old"], n)
    X = pd.DataFrame(
        {
            "area <m²>": np.where(rng.random(n) < 0.1, np.nan, area),
            EVIL: rng.choice(["gas", "oil", EVIL_VALUE], n),
            "street": np.char.add("street ", street.astype(str)),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D"),
            "garden": rng.random(n) < 0.4,
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 86_400 * 30, n), unit="s"),
            "notes": [f"a flat with {word} windows, number {k}" for k, word in enumerate(words)],
            "took": pd.to_timedelta(rng.integers(60, 9000, n), unit="s"),
        }
    )
    return X, 1e5 * np.exp(0.01 * area + 0.3 * X["garden"] + 0.3 * np.sin(street) + 0.1 * rng.normal(size=n)).to_numpy()


@cache
def fitted(name):
    """Return a model, and rows and targets that it has not seen."""
    if name == "columns":
        X, y = frame(160, 0)
        return BDKNRegressor(target="log", density="student-t", **SMALL).fit(X, y), *frame(100, 1)
    (X, f, rng), (X_new, f_new, _) = numbers(150, 0), numbers(100, 1)
    X_new[:20] *= 3.0  # outside of the training rows
    X_new[20:25] *= 30.0  # and far away
    noise, noise_new = 0.2 * rng.normal(size=150), 0.2 * rng.normal(size=100)
    if name == "plain":
        model = BDKNRegressor(target="identity", density="student-t", activation=("relu", "leaky_relu"), **SMALL)
    elif name == "bounded":
        model, noise, noise_new = BDKNRegressor(target="identity", lower=0.0, density="student-t", **SMALL), 1.5, 1.5
    elif name == "log":
        model = BDKNRegressor(target="log", density="student-t", **SMALL)
        return model.fit(X, np.exp(f + noise)), X_new, np.exp(f_new + noise_new)
    elif name == "bins":
        model = BDKNRegressor(
            target="identity", n_bins=5, activation="tanh", density="student-t", members=("networks", "linear"), **SMALL
        )
    elif name == "shape":
        model = BDKNRegressor(target="identity", **SMALL)
        noise, noise_new = (np.where(rng.random(n) < 0.5, 1.5, -1.5) + 0.05 * rng.normal(size=n) for n in (150, 100))
    else:
        model = DeepEnsembleRegressor(n_members=3, epochs=25, random_state=0)
    return model.fit(X, f + noise), X_new, f_new + noise_new


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_of(small_forests, tmp_path_factory):
    """Return a function that gives the page of a model, which is written once; ten rows say what drives it."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def written(name):
        words = {"title": f"Houses {EVIL}", "target_name": "price & <more>"} if name == "columns" else {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drivers, "_MAX_ROWS", 10)
            write_page(*fitted(name), folder / f"{name}.html", **words)
        return folder / f"{name}.html"

    return written


@pytest.fixture(scope="module")
def columns_page(page_of):
    return page_of("columns")


@contextmanager
def visit(browser, path, width=1280, height=900, scheme="light"):
    """Open a page, and at the end check that it printed nothing, opened nothing and asked for nothing."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    yield page
    assert said == []
    assert asked == [path.as_uri()]
    page.close()


@pytest.mark.parametrize("name", ["plain", "bounded", "log", "bins", "shape", "ensemble", "columns"])
def test_the_page_predicts_as_python_does(browser, page_of, name):
    path, (model, X, y) = page_of(name), fitted(name)
    assert name != "shape" or model.density_ is not None
    evaluation, _ = evaluate(model, X, y, 100)
    codes = codes_of(evaluation)
    rows = [values_of(evaluation, codes, i) for i in range(100)]
    with visit(browser, path) as page:
        found = page.evaluate(
            """([rows, levels, t]) => rows.map((row) => {
                const { dist } = whatIf.predict(row);
                const ends = dist.interval(0.9);
                return [...levels.map((level) => dist.ppf(level)), ...ends, dist.mean(), dist.cdf(t), dist.pdf(t)];
            })""",
            [rows, LEVELS, float(np.median(y))],
        )
    found, dist = np.array(found), model.predict_dist(X)
    lower, upper = dist.interval(0.9)
    scale = (upper - lower)[:, None] / 3.3
    expected = np.column_stack([dist.ppf(LEVELS), lower, upper, dist.mean()])
    np.testing.assert_array_less(np.abs(found[:, :-2] - expected) / scale, 1e-4)
    median = np.full(100, np.median(y))
    np.testing.assert_allclose(found[:, -2], dist.cdf(median), atol=1e-4)
    np.testing.assert_allclose(found[:, -1] * scale[:, 0], dist.pdf(median) * scale[:, 0], atol=1e-4)


def test_the_page_divides_variance_and_finds_support_as_python_does(browser, page_of):
    path, (model, X, _) = page_of("shape"), fitted("shape")
    with visit(browser, path) as page:
        script = "(rows) => rows.map((row) => { const f = whatIf.predict(row); return [f.parts, f.place]; })"
        found = page.evaluate(script, X.tolist())
    parts, report = model.predict_var(X, decompose=True), model.support(X)
    for name, expected in parts.items():
        shares = [own[name] / sum(own.values()) for own, _ in found]
        np.testing.assert_allclose(shares, expected / sum(parts.values()), atol=1e-4)
    assert [place["status"] for _, place in found] == report.status.tolist()
    assert {"inside", "outside"} <= set(report.status)
    for (_, place), column in zip(found, report.column, strict=True):
        assert column is None or place["column"] == column


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(360, 800), (1280, 900)])
def test_nothing_overflows_and_text_can_be_read(browser, columns_page, width, height, scheme):
    with visit(browser, columns_page, width, height, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(FAINT_TEXT.replace("LIMIT", "4.5")) == []
        assert len(page.evaluate(FAINT_TEXT.replace("LIMIT", "12"))) > 20  # the soft words are seen
        background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(int(part) for part in background[4:-1].split(",")) < 200) == (scheme == "dark")


FAINT_TEXT = """() => {
  const parse = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (top, under) => [0, 1, 2].map((k) => top[3] * top[k] + (1 - top[3]) * under[k]).concat(1);
  const behind = (element) => {
    if (!element) return [255, 255, 255, 1];
    const own = parse(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(element.parentElement));
  };
  const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const quiet = ["SCRIPT", "STYLE", "OPTION", "title", "desc"], found = [];
  for (const element of document.querySelectorAll("body *")) {
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || !element.getClientRects().length || quiet.includes(element.tagName)) continue;
    const style = getComputedStyle(element), under = behind(element);
    const ink = over(parse(element instanceof SVGElement ? style.fill : style.color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < LIMIT) found.push([element.tagName, element.textContent.slice(0, 40), ratio]);
  }
  return found;
}"""


def test_the_button_changes_the_theme(browser, columns_page):
    with visit(browser, columns_page) as page:
        before = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != before
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == before


def test_keys_are_enough(browser, columns_page):
    with visit(browser, columns_page) as page:
        order = []
        for _ in range(40):
            page.keyboard.press("Tab")
            order.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert order[0] == "theme"
        inputs = [name for name in order if name.startswith("input-")]
        assert order.index("threshold") < order.index("start") < order.index(inputs[0])
        assert set(inputs) == {f"input-{j}" for j in (0, 1, 2, 3, 4, 5, 7)}
        page.focus("#input-0")
        before = page.inner_text("#expected"), page.input_value("#input-0")
        for _ in range(30):
            page.keyboard.press("ArrowRight")
        page.wait_for_function("(text) => document.getElementById('expected').textContent !== text", arg=before[0])
        assert float(page.input_value("#input-0")) > float(before[1])
        page.focus("#threshold")
        chance = page.inner_text("#above")
        for _ in range(40):
            page.keyboard.press("ArrowLeft")
        page.wait_for_function("(text) => document.getElementById('above').textContent !== text", arg=chance)


def test_menus_dates_and_typed_numbers_change_the_prediction(browser, columns_page):
    with visit(browser, columns_page, 360, 800) as page:
        wait = "(text) => document.getElementById('between').textContent !== text"
        for change in (
            lambda: page.select_option("#input-4", label="no" if page.input_value("#input-4") == "1" else "yes"),
            lambda: page.fill("#input-3", "2029-06-01"),
            lambda: page.fill("#input-0 + input", "420"),
        ):
            text = page.inner_text("#between")
            change()
            page.wait_for_function(wait, arg=text)
        assert "Outside of the training rows" in page.inner_text("#place")
        page.select_option("#start", label=page.locator("#start option").nth(2).inner_text())
        assert "Observed in this row" in page.inner_text("#place")


def test_the_threshold_follows_the_pointer(browser, columns_page):
    with visit(browser, columns_page) as page:
        box = page.locator("#density").bounding_box()
        chances = []
        for share in (0.1, 0.9):
            page.mouse.click(box["x"] + share * box["width"], box["y"] + 40)
            page.wait_for_function("(k) => Math.abs(whatIf.state.threshold - k) > 1e-9", arg=0)
            page.wait_for_timeout(50)
            chances.append(page.evaluate("1 - whatIf.predict(whatIf.state.values).dist.cdf(whatIf.state.threshold)"))
        assert chances[0] > 0.5 > chances[1]


def test_names_are_text(browser, columns_page):
    with visit(browser, columns_page) as page:
        assert page.inner_text("h1") == f"Houses {EVIL}"
        assert page.locator("img").count() == 0
        assert EVIL in page.inner_text("#inputs")
        assert EVIL_VALUE in page.locator("#input-1").inner_text()
        assert "price & <more>" in page.inner_text(".verdict")


def test_hovering_shows_values(browser, columns_page):
    with visit(browser, columns_page) as page:
        page.locator(".chart.wide .dot").first.hover()
        assert page.inner_text("#tip").startswith("row ")
