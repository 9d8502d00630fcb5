"""Take pictures of a page about a model: on a desk in light and dark, and on a phone.

Run it with ``python examples/page_pictures.py report/index.html docs/images`` after ``bdkn demo --out report``. It
needs ``pip install playwright``, and Chromium on the PATH.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

PICTURES = {
    "page-light.png": {"viewport": {"width": 1180, "height": 1380}, "color_scheme": "light"},
    "page-dark.png": {"viewport": {"width": 1180, "height": 1380}, "color_scheme": "dark"},
    "page-phone.png": {"viewport": {"width": 360, "height": 1240}, "color_scheme": "light", "device_scale_factor": 2},
}


def main(page, folder="."):
    """Write the pictures of a page to a folder."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        for name, look in PICTURES.items():
            tab = browser.new_page(**look)
            tab.goto(Path(page).resolve().as_uri())
            tab.wait_for_timeout(500)
            tab.screenshot(path=Path(folder) / name)
            tab.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
