"""The report in a browser: light, dark and on a telephone; its tables sort, can be searched, and scroll instead of being cut.

SHARDPACK_CHROMIUM names a browser that is not on PATH. The pictures stay in target/report/ for whoever wants to look.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import programs
import pytest
from conftest import run
from PIL import Image, ImageStat
from programs import PROJECT

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"]
VIEWS = {"light": (1280, 2400, []), "dark": (1280, 2400, ["--blink-settings=preferredColorScheme=0"]), "telephone": (390, 2400, [])}


@pytest.fixture(scope="module")
def browser() -> str:
    names = [os.environ["SHARDPACK_CHROMIUM"]] if "SHARDPACK_CHROMIUM" in os.environ else NAMES
    found = [path for name in names if (path := shutil.which(name))]
    if not found:
        pytest.skip("no browser: apt-get install chromium")
    return found[0]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """Of a dataset with fifty classes, an image in both splits, one that is odd, and one that is damaged."""
    root = tmp_path_factory.mktemp("report")
    run(programs.imagefolder(), root / "images", "--classes", "50", "--per-class", "3", "--val-per-class", "1")
    classes = sorted((root / "images/train").iterdir())
    first, second = sorted(classes[0].iterdir())[:2]
    shutil.copy(first, root / "images/val" / classes[1].name / "leak.JPEG")
    second.write_bytes(second.read_bytes()[:3000])
    flags = ["--on-error", "skip", "--shard-size", "4MB", "--progress", "none", "--report", root / "report.html"]
    run(programs.shardpack(), "convert", root / "images", root / "shards", *flags)
    return root / "report.html"


def look(browser: str, page: Path, width: int, height: int, *flags: str) -> str:
    usual = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
    command = [browser, *usual, f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},{height}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(browser: str, page: Path, script: str, width: int = 1280) -> dict:
    """What a script in a copy of the page answers. The copy's policy allows that script, and nothing more than the page's own."""
    script = f"document.body.dataset.answer = JSON.stringify((() => {{{script}}})());"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = page.read_text().replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    copy = page.with_name("asked.html")
    copy.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    answer = re.search(r'data-answer="([^"]*)"', look(browser, copy, width, 900, "--dump-dom"))
    assert answer, "the page's policy did not let the script run"
    return json.loads(answer[1].replace("&quot;", '"').replace("&amp;", "&"))


@pytest.mark.parametrize("view", VIEWS)
def test_it_is_shown_in_light_in_dark_and_on_a_telephone(browser, page, view):
    width, height, flags = VIEWS[view]
    picture = PROJECT / "target/report" / f"{view}.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    look(browser, page, width, height, f"--screenshot={picture}", *flags)
    with Image.open(picture) as shot:
        assert shot.size == (width, height)
        brightness = ImageStat.Stat(shot.convert("L")).mean[0]
        colours = len(shot.convert("RGB").quantize(64).getcolors())
    assert brightness < 90 if view == "dark" else brightness > 190, brightness
    assert colours > 30, "nothing but background"


def test_its_pictures_are_there_and_nothing_is_fetched(browser, page):
    told = ask(
        browser,
        page,
        """
        const images = [...document.images];
        return {
          images: images.length, broken: images.filter((image) => !image.naturalWidth).length,
          fetched: performance.getEntriesByType("resource").filter((one) => !one.name.startsWith("data:")).length,
        };
        """,
    )
    # Four of each of twelve classes are all there are; some stand out too.
    assert told["images"] >= 40 and told["broken"] == 0 and told["fetched"] == 0


def test_the_classes_are_sorted_and_searched(browser, page):
    told = ask(
        browser,
        page,
        """
        const table = [...document.querySelectorAll("table.sorts")].pop();
        const names = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent);
        const before = names();
        const button = (at) => table.tHead.rows[0].cells[at].querySelector("button");
        button(2).click();
        const counts = [...table.tBodies[0].rows].map((row) => Number(row.cells[2].textContent));
        button(0).click(); button(0).click();
        const down = names();
        const search = table.closest("details").querySelector("input");
        search.value = before[7].toUpperCase();
        search.dispatchEvent(new Event("input"));
        return { before, counts, down, found: names(), sort: table.tHead.rows[0].cells[0].getAttribute("aria-sort") };
        """,
    )
    assert len(told["before"]) == 50 and told["before"] == sorted(told["before"])
    assert told["counts"] == sorted(told["counts"], reverse=True) and len(set(told["counts"])) > 1
    assert told["down"] == sorted(told["before"], reverse=True) and told["sort"] == "descending"
    assert told["found"] == [told["before"][7]]


def test_on_a_telephone_tables_scroll_and_the_page_does_not(browser, page):
    told = ask(
        browser,
        page,
        """
        document.querySelectorAll("details").forEach((one) => (one.open = true));
        const wide = [...document.querySelectorAll(".wide")];
        const cut = wide.filter((one) => one.scrollWidth > one.clientWidth && getComputedStyle(one).overflowX !== "auto");
        const scroller = document.scrollingElement;
        return { width: innerWidth, page: scroller.scrollWidth, wide: wide.filter((one) => one.scrollWidth > one.clientWidth).length, cut: cut.length };
        """,
        width=390,
    )
    assert told["page"] <= told["width"] <= 500, told
    assert told["wide"] > 0 and told["cut"] == 0, told


def test_without_scripts_every_class_is_there(page):
    text = page.read_text()
    assert len(text) < 2_000_000
    table = text[text.index("All 50 classes") :]
    assert table[: table.index("</table>")].count("<tr>") == 51
