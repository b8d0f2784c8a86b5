"""The page as HTML: every claim is there, nothing loads or runs but the package's own, and no text of a report acts."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from page_reports import PRODUCER, Elements, contraction, json_in, page_of, report, rounding, usual_page

import certify
from certify import cases
from certify.certificate import Claim, Report, encode
from certify.errors import MissingExtra
from certify.page import Check, Status, require_html
from certify.page.theorems import link_of

HOSTILE = "</script></pre></details><img src=x onerror=alert(1)>\"'`&lt;{{ 7 * 7 }}$x$\u202e\x00\x1b"


def test_every_claim_is_there():
    """A row each with id, kind, format, verdict and bound, and the statement, reason, assumptions and proof inside."""
    made = report()
    page = Elements(page_of(made))
    bodies = [(a, t) for a, t in page.named("tbody") if "data-kind" in a]
    assert len(bodies) == len(made.claims)
    for claim, (attributes, text) in zip(made.claims, bodies, strict=True):
        assert attributes["data-verdict"] == claim.verdict
        for part in (claim.id, claim.kind, claim.verdict.value, claim.statement, claim.reason, claim.theorem):
            assert part in text
        for part in (*claim.assumptions, *claim.bounds, *claim.bounds.values()):
            assert part in text


def test_the_verdict_comes_first():
    """One sentence: the verdict, what it rests on, and what the report is about; then the advice."""
    page = Elements(usual_page())
    ((_, heading),) = page.named("h1")
    assert " ".join(heading.split()) == "✓ certified in float32: polyprox, 2 states, p = 3, p_max = 4"
    (advice,) = [text for attributes, text in page.named("p") if attributes.get("class") == "advice"]
    assert advice.startswith("Use float32, the coarsest format certified")


def test_numbers_are_on_the_safe_side():
    """Upper bounds are rounded up, radii and lower bounds down, and q never to 1; the report's own display is not read."""
    lying = contraction(7, display={"q": "0.1", "mu": "9"})
    rows = [t for a, t in Elements(page_of(report(lying))).named("tr") if not a]
    assert any(row.startswith("q contraction factor") and row.endswith("0.999220x1.ff99a145dfd1bp-1") for row in rows)
    assert any(row.startswith("mu ") and row.endswith("5.00e-010x1p-1") for row in rows)
    assert any(row.startswith("radius ") and row.endswith("7.81e-030x1p-7") for row in rows)  # 0.0078125
    assert any(row.startswith("L_J ") and row.endswith("6.00e+000x1.8p+2") for row in rows)


def test_landmarks_and_captions():
    """One of each landmark, a caption for every table of numbers, a scope for every header, a name for every drawing."""
    page = Elements(usual_page())
    for tag in ("html", "header", "nav", "main", "footer", "h1"):
        assert len(page.named(tag)) == 1, tag
    assert page.named("html")[0][0]["lang"] == "en"
    tables = [a for a, _ in page.named("table") if a.get("class") != "theory-table"]
    assert len(page.named("caption")) == len(tables)
    assert all("scope" in attributes for attributes, _ in page.named("th"))
    assert all(attributes.get("aria-label") for attributes, _ in page.named("svg"))
    assert len(page.named("svg")) == 5
    levels = [int(tag[1]) for tag, _, _ in page.all if tag in ("h1", "h2", "h3", "h4")]
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_identifiers_are_unique_and_links_lead_somewhere():
    """The charts of several states share no identifier, and every reference has a target."""
    page = Elements(usual_page())
    identifiers = [attributes["id"] for _, attributes, _ in page.all if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    targets = [a["href"] for _, a, _ in page.all if (a.get("href") or "").startswith("#")]
    targets += re.findall(r"url\((#[^)]*)\)", usual_page())
    assert targets
    assert {target.removeprefix("#") for target in targets} <= set(identifiers)


def test_nothing_loads_and_only_the_own_script_runs():
    """No address but the download, no style or event attribute, and a policy that names style and script by digest."""
    text = usual_page()
    page = Elements(text)
    for tag, attributes, _ in page.all:
        assert tag not in ("img", "link", "iframe", "object", "embed", "base", "image", "foreignobject")
        assert "src" not in attributes
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        href = attributes.get("href") or "#"
        assert href.startswith(("#", "data:application/json;base64,"))
    (policy,) = [a["content"] for a, _ in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for tag in ("style", "script"):
        ((_, own),) = page.named(tag)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert directives.pop(f"{tag}-src") == f"'sha256-{digest}'"
    assert directives == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    assert "@import" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_the_report_is_carried_unchanged():
    """The download is the file to the last byte; what is shown is the same JSON."""
    made = report()
    data = encode(made).replace(b"\n", b"\n ")
    text = page_of(made, data=data)
    (link,) = [a for a, _ in Elements(text).named("a") if "download" in a]
    assert link["download"] == "report.json"
    assert base64.b64decode(link["href"].partition(",")[2]) == data
    assert json_in(text) == made.to_json()


def test_no_text_of_a_report_acts():
    """Markup, templates and control characters in every text of a report come out as text."""
    kinds = ("rounding", "range", "contraction", "updates", "precision", "other")
    claims = [
        Claim(
            id=f"{kind}/x/point",
            kind=kind,
            statement=HOSTILE,
            semantics="program",
            parameters={
                "format": HOSTILE,
                "order": HOSTILE,
                "region": {"kind": "point", HOSTILE: HOSTILE},
                "tol": HOSTILE,
            },
            verdict="undecided",
            reason=HOSTILE,
            bounds={HOSTILE: "0x1p+999999", "q": "3", "count": "1" * 60},
            observed={
                HOSTILE: HOSTILE,
                "first_risk": f"register {HOSTILE}, layer {HOSTILE}",
                "growth": [[HOSTILE, HOSTILE, "1e-3", HOSTILE], [HOSTILE], 3, ["a", "$x$", "nan", "1"]],
                "spectrum": [HOSTILE, "1.0", "1e999", 3, None],
                "convergence": {
                    "updates": [1, HOSTILE],
                    "norm": ["1e-3", HOSTILE],
                    "modal": 3,
                    "replayed": [[HOSTILE]],
                },
            },
            assumptions=[HOSTILE],
            theorem=f"https://example.org/{HOSTILE}",
            witness={"file": "w.safetensors", "sha256": "0" * 64, HOSTILE: HOSTILE},
            display={"digits_norm": HOSTILE, "q": HOSTILE},
        )
        for kind in kinds
    ]
    hostile = Report({**PRODUCER, "name": HOSTILE, "version": HOSTILE}, {"case": HOSTILE, "states": 2}, claims)
    checks = {"other/x/point": Check(Status.REJECTED, HOSTILE)}
    text = page_of(hostile, checks=checks, name=HOSTILE)
    page = Elements(text)
    assert not page.named("img")
    assert len(page.named("script")) == 1
    assert len(page.named("pre")) == 1
    assert "49" not in page.named("h1")[0][1]
    assert not set(text) & {"\x00", "\x1b", "\u202e"}
    assert all((a.get("href") or "#").startswith(("#", "data:")) for a, _ in page.named("a"))
    assert sum("<img src=x onerror=alert(1)>" in t for _, t in page.named("summary")) == len(kinds)


def test_checks_are_shown():
    """Each claim with the checker's word, and a count at the top; without a check, how to get one."""
    made = report()
    checks = {claim.id: Check(Status.PROVED) for claim in made.claims[1:]}
    checks[made.claims[3].id] = Check(Status.REJECTED, "eps_W is 2, but 3 was proved")
    text = page_of(made, checks=checks)
    rows = [t for a, t in Elements(text).named("td") if a.get("class") == "checked"]
    assert ["not checked" in rows[0], "rejected" in rows[3], "proved again" in rows[4]] == [True] * 3
    assert "eps_W is 2, but 3 was proved" in text
    (line,) = [" ".join(t.split()) for a, t in Elements(text).named("section") if a.get("class") == "checker"]
    assert "✓ proved again 8, ✗ rejected 1, ○ not checked 1 of 10 claims" in line
    assert "the independent checker rejects 1 of 10 claims. Do not rely on this report." in text
    assert "certify check report.json --state" in usual_page()
    assert "Do not rely" not in usual_page()


def test_theorems_are_on_the_page():
    """Each citation leads to an anchor of a document that the page carries; what cites nothing known is plain text."""
    made = report(
        rounding("float16", 9, theorem="javascript:alert(1)"),
        rounding("float16", 10, theorem="docs/theory/rounding.md#absent"),
        rounding("float16", 11, theorem="docs/theory/../rounding.md#running"),
    )
    text = page_of(made)
    page = Elements(text)
    targets = {a["id"] for name in ("a", "details") for a, _ in page.named(name) if "id" in a}
    cited = [(a["href"], t) for a, t in page.named("a") if t.startswith("docs/theory/")]
    assert ("#theory-rounding-running", "docs/theory/rounding.md#running") in cited
    assert len(cited) == sum(bool(claim.theorem) for claim in made.claims) - 3
    assert {a["href"][1:] for a, _ in page.named("a") if a.get("href", "").startswith("#theory-")} <= targets
    assert "<code>javascript:alert(1)</code>" in text


def test_every_cited_theorem_exists():
    """Whatever the package's claims cite is an anchor of a document."""
    root = Path(certify.__file__).parent
    sources = [path for folder in (root, Path(cases.__file__).parent) for path in folder.rglob("*.py")]
    cited = {
        match for path in sources for match in re.findall(r"docs/theory/[a-z]+\.md#[a-z-]+", path.read_text("utf-8"))
    }
    assert len(cited) > 8
    assert [theorem for theorem in sorted(cited) if not link_of(theorem, {})] == []


def test_many_states():
    """Only the first have charts, and the page says so; every claim is in the table."""
    claims = [rounding("float32", k) for k in range(40)]
    page = Elements(page_of(Report(PRODUCER, {"case": "polyprox", "states": 40}, claims)))
    assert len(page.named("svg")) == 12
    assert "Charts are drawn for the first 12 states only." in [text for _, text in page.named("p")]
    assert len([a for a, _ in page.named("tbody") if "data-kind" in a]) == 40


def test_one_state_without_any_number():
    """A report with one bare claim makes a page too."""
    bare = Claim("other/1", "other", "Something holds.", "real", verdict="undecided", reason="nobody knows")
    page = Elements(page_of(Report(PRODUCER, {"case": "?"}, [bare])))
    assert not page.named("svg")
    assert page.named("h1")[0][1].strip().startswith("? undecided")


def test_two_processes_make_the_same_bytes(tmp_path):
    """Whatever the hash seed, the locale, the time zone and the user's matplotlib settings are."""
    (tmp_path / "report.json").write_bytes(encode(report()))
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nlines.linewidth: 7\n")
    pages = []
    for name, environment in (
        ("a", {"PYTHONHASHSEED": "1", "TZ": "UTC"}),
        ("b", {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "LC_ALL": "de_DE.UTF-8", "MATPLOTLIBRC": str(tmp_path)}),
    ):
        command = [sys.executable, "-m", "certify.cli.main", "html", "report.json", "-o", f"{name}.html"]
        subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True)
        pages.append((tmp_path / f"{name}.html").read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize("absent", ["jinja2", "matplotlib.figure"])
def test_the_extra_is_named(monkeypatch, absent):
    """Without jinja2 or matplotlib the refusal says what to install."""
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingExtra, match=r"pip install 'certify\[html\]'"):
        require_html()
