"""The page in headless Chromium: nothing complains or loads, nothing overflows, tables sort by keyboard."""

from __future__ import annotations

import pytest
from browser import Browser, program
from page_reports import overflow, page_of, report, rounding, usual_page

from certify.certificate import Claim
from certify.page import Check, Status

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium or Chrome is installed")

IDS = "[...document.querySelectorAll('#claim-table tbody:not([hidden]) .id')].map((e) => e.textContent)"
#: Elements that stick out of the window, but for those inside a box that scrolls and those hidden from sight.
WIDE = """[...document.querySelectorAll('main *, header *, nav *')].filter((e) =>
    e.getBoundingClientRect().right > innerWidth + 0.5 && !e.closest('pre, .hidden, caption, thead, svg')).length"""
#: The least contrast of a text with what is behind it, by the formula of WCAG 2.
CONTRAST = """(() => {
  const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { while (e && rgb(getComputedStyle(e).backgroundColor)[3] === 0) e = e.parentElement;
    return rgb(getComputedStyle(e || document.body).backgroundColor).slice(0, 3); };
  let least = 21;
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.closest('script, style')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(e.closest('svg') ? style.fill : style.color).slice(0, 3)), light(behind(e))];
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for all tests."""
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The usual page, in a file."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(usual_page(), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_complains_loads_or_overflows(browser, page, width, dark):
    """No message on the console, no request but the page's own, and no sideways scrolling, with all details open."""
    browser.open(page, width=width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(WIDE) == 0
    assert browser.complaints == []
    assert [url.partition(",")[0] for url in browser.requests] == [page.as_uri()]


def test_long_words_do_not_overflow(browser, tmp_path):
    """The longest identifiers that the format allows, and texts without a place to break, on the narrowest phone."""
    long = "W" * 190
    claims = [
        rounding(
            "float32",
            2,
            id=f"{long}/0",
            statement=long,
            parameters={"format": long, long: long, "region": {"kind": "point"}},
        ),
        overflow("float16", 2, place=f"{long} {long}"),
        Claim(
            f"{long}/1", "k" * 40, long, "real", {}, "undecided", long, {long: "0x1p-1074"}, {long: long}, [long], long
        ),
    ]
    path = tmp_path / "long.html"
    made = report(*claims, subject={"case": long, "p": 10**18, "states": 10**18})
    path.write_text(page_of(made, name=f"{long}.json", checks={claims[0].id: Check(Status.REJECTED, long)}), "utf-8")
    for width in (320, 1280):
        browser.open(path, width=width)
        browser.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.run(WIDE) == 0


@pytest.mark.parametrize("break_it", ["style", "script", "image"])
def test_complaints_are_heard(browser, page, tmp_path, break_it):
    """What the other tests rely on: a style, a script or an image that the policy does not know is a complaint."""
    foreign = {
        "style": "<p style='color: red'>",
        "script": "<script>1</script>",
        "image": "<img src='https://localhost/x'>",
    }
    path = tmp_path / "broken.html"
    path.write_text(page.read_text("utf-8").replace("<footer>", f"{foreign[break_it]}<footer>"), "utf-8")
    browser.open(path, width=390)
    assert len(browser.complaints) == 1


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(browser, page, dark):
    """Every text stands out by 4.5 to 1, in light and dark, in the drawings too."""
    browser.open(page, width=1280, dark=dark)
    assert browser.run(CONTRAST) >= 4.5


def test_sorting_by_keyboard(browser, page):
    """Tab reaches the headers; Enter sorts, again turns the order round, and aria-sort and a sentence say so."""
    browser.open(page, width=1280)
    before = browser.run(IDS)
    browser.run("document.getElementById('filter-verdict').focus()")
    browser.press("Tab", 9)
    assert browser.run("document.activeElement.closest('th').textContent") == "claim"
    browser.press("Enter", 13, "\r")
    assert browser.run(IDS) == sorted(before)
    assert browser.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
    browser.press("Enter", 13, "\r")
    assert browser.run(IDS) == sorted(before, reverse=True)
    assert browser.run("document.getElementById('shown').textContent") == "10 of 10 claims, by claim, descending"
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1


def test_sorting_by_numbers(browser, page):
    """Bounds by their exact values, what has none last either way; verdicts in their own order."""
    browser.open(page, width=390)
    values = "[...document.querySelectorAll('.bound')].map((e) => e.dataset.key)"
    for sign in (1, -1):
        browser.run("document.querySelectorAll('#claim-table th button')[4].click()")
        keys = browser.run(values)
        numbers = [float(key) * sign for key in keys if key]
        assert numbers == sorted(numbers)
        assert keys == [key for key in keys if key] + [""] * keys.count("")
    browser.run("document.querySelectorAll('#claim-table th button')[3].click()")
    verdicts = browser.run("[...document.querySelectorAll('tbody[data-verdict]')].map((e) => e.dataset.verdict)")
    assert verdicts == sorted(verdicts, key=["certified", "refuted", "undecided"].index)


def test_filtering(browser, page):
    """By words anywhere in a claim and by kind, format and verdict, together; how many are left is said."""
    browser.open(page, width=1280)
    browser.run("document.getElementById('filter-text').focus()")
    browser.send("Input.insertText", text="STATE=0 one update")
    assert browser.run(IDS) == [
        i for i in browser.run(IDS.replace(":not([hidden])", "")) if i[:8] == "rounding" and i[-1] == "0"
    ]
    choose = "((s) => { s.value = 'float32'; s.dispatchEvent(new Event('change')); })(document.getElementById('filter-format'))"
    browser.run(choose)
    assert browser.run(IDS) == ["rounding/float32/serial/point/state=0", "rounding/float32/serial/ball/state=0"]
    assert browser.run("document.getElementById('shown').textContent") == "2 of 10 claims"


def test_without_scripts(browser, page):
    """Everything can be read without a script; what needs one is not shown."""
    browser.open(page, width=1280, script=False)
    found = browser.send("DOM.getDocument", depth=-1)["root"]["nodeId"]
    form = browser.send("DOM.querySelector", nodeId=found, selector="#filter")["nodeId"]
    assert "hidden" in browser.send("DOM.getAttributes", nodeId=form)["attributes"]
    assert browser.send("DOM.querySelectorAll", nodeId=found, selector="th button")["nodeIds"] == []
    assert len(browser.send("DOM.querySelectorAll", nodeId=found, selector=".more details")["nodeIds"]) == 10


def test_drawings_change_with_the_scheme(browser, page):
    """Lines and words of a chart have other colours in the dark."""
    colours = []
    for dark in (False, True):
        browser.open(page, width=1280, dark=dark)
        colours.append(
            browser.run(
                "['.s-blue', '.f-muted'].map((c) => ((s) => s.stroke + s.fill)(getComputedStyle(document.querySelector(c))))"
            )
        )
    assert all(a != b for a, b in zip(*colours, strict=True))


def test_printing(browser, page):
    """A4 paper, black on white even in the dark, without what can only be clicked."""
    browser.open(page, width=1280, dark=True)
    pdf = browser.send("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert pdf.startswith("JVBERi0")  # %PDF-
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.send("Emulation.setEmulatedMedia", media="print", features=[scheme])
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (
        browser.run("['nav', '#filter', '#raw'].map((s) => getComputedStyle(document.querySelector(s)).display)")
        == ["none"] * 3
    )
    assert browser.run(CONTRAST) >= 4.5


def test_a_hostile_report_runs_nothing(browser, tmp_path):
    """An attack in the checker's words and the file's name is text: no dialog, no complaint, one script."""
    made = report()
    attack = "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    path = tmp_path / "attack.html"
    path.write_text(page_of(made, checks={made.claims[0].id: Check(Status.REJECTED, attack)}, name=attack), "utf-8")
    browser.open(path, width=390)
    assert browser.run("document.title").startswith("Certified in float32")
    assert browser.run("document.scripts.length + document.images.length") == 1
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints == []


def test_a_citation_unfolds_its_proof(browser, page):
    """Following the link of a claim opens the document and brings the theorem into sight."""
    browser.open(page, width=390)
    assert not browser.run("document.getElementById('theory-rounding').open")
    browser.run("document.querySelector('a[href=\"#theory-rounding-running\"]').click()")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
    assert browser.run("document.getElementById('theory-rounding').open")
    top = "document.getElementById('theory-rounding-running').getBoundingClientRect().top"
    assert browser.run(f"{top} >= 0 && {top} < innerHeight")
