"""The tables of docs/papers.md: no row is silent, every verdict is one of four, every named test exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from certify.cases import CASES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "papers.md").read_text("utf-8")
VERDICTS = ("certified", "refuted", "measured", "out of reach")


def numbered(letter, last):
    """A1 to A13, say."""
    return {f"{letter}{k}" for k in range(1, last + 1)}


ROWS = {
    "ngd": numbered("A", 13) | numbered("E", 5) | numbered("C", 13),
    "star_graph": numbered("A", 13) | numbered("E", 7) | numbered("C", 12),
    "meta_models": numbered("S", 16) | numbered("X", 19),
}


def section(case):
    """The text about a case: from its anchor to the next section."""
    return re.split(r"^## ", TEXT.split(f'<a id="{case}"></a>')[1], flags=re.MULTILINE)[0]


def rows(case):
    """The cells of the table rows of a case."""
    lines = [line for line in section(case).splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if len(row) == 5 and row[0] != "id" and not set(row[0]) <= set("-: ")]


@pytest.mark.parametrize("case", CASES)
def test_every_row_has_a_verdict_and_a_command(case):
    """Five cells; a verdict, perhaps two with `and`; a command in backticks unless it is out of reach."""
    found = rows(case)
    assert len(found) > 10
    for id, what, verdict, command, sentence in found:
        said = re.split(r" and |, |; ", verdict)
        assert all(part in VERDICTS for part in said), (id, verdict)
        assert what and sentence, id
        assert "`" in command or said == ["out of reach"], id


@pytest.mark.parametrize("case", ROWS)
def test_no_row_of_the_specification_is_silent(case):
    """Every id stands in the first cell of some row, alone or among others."""
    ids = {id for row in rows(case) for id in re.findall(r"[A-Z][0-9]+", row[0])}
    ranges = [match for row in rows(case) for match in re.findall(r"([A-Z])([0-9]+) to \1([0-9]+)", row[0])]
    ids |= {f"{letter}{k}" for letter, first, last in ranges for k in range(int(first), int(last) + 1)}
    assert ROWS[case] - ids == set()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"tests/[a-z0-9_/]+\.py(?:::[A-Za-z0-9_]+)?", TEXT))))
def test_named_tests_exist(name):
    """The file is there, and defines the test."""
    file, _, test = name.partition("::")
    assert (ROOT / file).is_file()
    assert not test or f"def {test}(" in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"python -m certify\.cases\.([a-z_.]+)", TEXT))))
def test_named_modules_exist(name):
    """A training command is a module of its case."""
    assert (ROOT / "cases" / name.replace(".", "/")).with_suffix(".py").is_file()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?<!/)(?:benchmarks|cases)/[a-z0-9_/]+\.(?:py|md)", TEXT))))
def test_named_files_exist(path):
    """Benchmarks and READMEs."""
    assert (ROOT / path).is_file()
