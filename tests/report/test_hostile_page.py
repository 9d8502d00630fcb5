"""The page of a table whose names and values try to be a page: nothing of them runs, asks for anything, or is lost."""

import shutil

import numpy as np
import pandas as pd
import pytest

from bdkn import BDKNRegressor
from bdkn.report.page import make_page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH")

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
NAMES = [
    "</script><script>window.hacked = 1</script>",
    "\"><img src='https://example.org/a.png' onerror='window.hacked = 2'>",
    "' onmouseover='window.hacked = 3' x='",
    "</title><svg onload=window.hacked=4>",
]
VALUES = [
    "<!--<script>window.hacked = 5</script>",
    "]]><iframe srcdoc='<script>parent.hacked = 6</script>'></iframe>",
    "{{ 7 * 7 }}${window.hacked = 7}",
    "</option></select><style>@import 'https://example.org/a.css'</style>",
    "</textarea><base href='https://example.org/'>",
    "javascript:window.hacked=8",
    "\u2028\u2029</sCrIpT ><script\n>window.hacked = 9</script>",
]


def table(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.choice(VALUES, n) for name in NAMES[:2]})
    frame[NAMES[2]] = rng.normal(size=n).round(2)
    frame[NAMES[3]] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return frame, (frame[NAMES[2]] + (frame[NAMES[0]] == VALUES[0])).to_numpy()


@pytest.mark.no_cover
def test_no_text_of_a_table_runs_in_its_page(tmp_path):
    options = {"n_members": 3, "epochs": 20, "effort": "fast", "density": "student-t", "random_state": 0}
    model = BDKNRegressor(cv=3, **options).fit(*table(120, 0))
    path = tmp_path / "page.html"
    page_of = make_page(model, *table(60, 1), title=NAMES[0], target_name=NAMES[1])
    page_of.save(path)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><meta charset=utf-8><body>{page_of._repr_html_()}", "utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        for place in (path, notebook):
            page, said, asked = browser.new_page(), [], []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            page.on("dialog", lambda dialog, said=said: (said.append(dialog.message), dialog.dismiss()))
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto(place.as_uri())
            frame = page.frames[-1]
            frame.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
            frame.evaluate(
                """() => document.querySelectorAll("*").forEach((part) => {
                    for (const kind of ["mouseover", "pointerover", "focus", "change", "input", "error", "load"])
                        part.dispatchEvent(new Event(kind, { bubbles: true }));
                })"""
            )
            page.wait_for_timeout(100)
            assert [one.evaluate("window.hacked") for one in page.frames] == [None] * len(page.frames)
            assert frame.locator("img, iframe, base, svg[onload], [onmouseover], [onerror]").count() == 0
            assert said == []
            assert [url for url in asked if url not in (place.as_uri(), "about:srcdoc")] == []
            assert frame.inner_text("h1") == NAMES[0]
            shown = frame.inner_text("body")
            assert all(name in shown for name in NAMES)
            choices = {" ".join(text.split()) for text in frame.locator("select option").all_text_contents()}
            assert {" ".join(value.split()) for value in VALUES} <= choices
        browser.close()
