"""The tables of the documents are those of the claims, and none is missing."""

from __future__ import annotations

import re
from pathlib import Path

from certify.cases.star_graph.audit import HOLD, audit, table
from certify.cases.star_graph.words import PUBLISHED, SENTENCES
from certify.checker.cases.star_graph import CHECKS
from certify.checker.cases.star_graph import words as checked
from star_graph_reports import uniform_claims

ROOT = Path(__file__).parents[3]
README = (ROOT / "cases/star_graph/README.md").read_text()
PAPER = (ROOT / "docs/papers.md").read_text().partition('<a id="star_graph"></a>')[2].partition("\n## ")[0]


def test_the_audit_in_the_readme_is_made_from_the_claims():
    """The command's table for the uniform law, row by row."""
    shown = README.split("<!-- audit -->\n")[1].split("\n<!-- end -->")[0]
    assert shown == table(audit(uniform_claims()))


def test_every_row_of_the_paper_has_a_verdict():
    """A1 to A13, E1 to E7, C1 to C12 with C2b and C4b; each verdict is one of four, each row has five columns."""
    rows = [line.split(" | ") for line in PAPER.splitlines() if re.match(r"\| ([AEC]\d|audit)", line)]
    found = {row[0].removeprefix("| ") for row in rows}
    wanted = {f"A{k}" for k in range(1, 14)} | {f"E{k}" for k in range(1, 8)} | {f"C{k}" for k in range(1, 13)}
    assert wanted | {"C2b", "C4b", "audit"} == found
    assert all(len(row) == 5 and row[2] in ("certified", "refuted", "measured", "out of reach") for row in rows)


def test_commands_of_the_table_exist():
    """Tests that it names are in their files."""
    for path, name in re.findall(r"`pytest (\S+)::(\w+)`", PAPER):
        assert f"def {name}(" in (ROOT / path).read_text()


def test_every_claim_has_a_proof_a_check_and_a_place_in_the_table():
    """Anchors exist in the README; the checker knows each id and has the same words; published texts have a source."""
    anchors = set(re.findall(r'<a id="([\w-]+)">', README))
    assert {anchor for anchor, _ in SENTENCES.values()} <= anchors
    assert set(SENTENCES) == set(CHECKS) and checked.SENTENCES == SENTENCES and checked.PUBLISHED == PUBLISHED
    assert {f"counterexample/{name}" for name in PUBLISHED} == {x for x in SENTENCES if x.startswith("counterexample")}
    assert {x.split("/m=")[0] for x in HOLD} <= set(SENTENCES)


def test_the_readme_names_every_module():
    """The table of modules, and that they are there."""
    named = set(re.findall(r"`(\w+\.py)`", README.split("## Notation")[0]))
    there = {x.name for x in (ROOT / "cases/star_graph").glob("*.py")} - {"__init__.py", "case.py", "words.py"}
    assert named == there
