"""`certify updates`: counts, bounds, exit codes, and the plot."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from certify.cli.updates_table import ROWS, rows
from command_lines import complaint

from certify.contraction.modal import Prediction


def words(text):
    """A text without line breaks."""
    return " ".join(text.split())


def test_a_proved_count(certify, state_file):
    """Exit code 0; the sentence, both counts, and a table that begins at the state and reaches the tolerance."""
    result = certify("updates", state_file())
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("The state, recorded step, float64: certified\n")
    assert "W is within 1e-06 of the fixed point of the stage after at most 98 updates" in words(result.stdout)
    table = [line.split() for line in result.stdout.split("norm bound")[-1].splitlines()[1:]]
    assert table[0][0] == "0"
    assert table[-1][-1] == "reached"
    bounds = [float(cells[1]) for cells in table]
    assert bounds == sorted(bounds, reverse=True)
    assert result.stderr == ""


def test_the_count_is_that_of_the_report(certify, state_file):
    """`run` claims the same count as `updates` prints."""
    from certify.certificate import decode

    path = state_file()
    report = decode(certify("run", path, "--methods", "face").stdout_bytes, "report")
    (claim,) = [c for c in report.claims if c.id == "updates/float64"]
    assert f"after at most {claim.bounds['count']} updates" in words(certify("updates", path).stdout)


def test_a_repelling_fixed_point(certify, state_file):
    """Exit code 4, and the step size that would contract."""
    result = certify("updates", state_file(gamma=3.0))
    assert result.exit_code == 4, result.stderr
    assert "refuted" in result.stdout.splitlines()[0]
    assert "the fixed point repels" in words(result.stdout)
    assert "try --step new" in words(result.stdout)
    assert certify("updates", "state.npz", "--step", "new").exit_code == 0


def test_a_format_that_is_too_coarse(certify, state_file):
    """Exit code 1: the floor of rounding is named, and a finer format or a larger tolerance helps."""
    path = state_file()
    result = certify("updates", path, "--format", "float16")
    assert result.exit_code == 1, result.stderr
    assert "Rounding in float16 keeps the distance from being proved below" in words(result.stdout)
    assert certify("updates", path, "--format", "binary32", "--tol", "0.001").exit_code == 0


def test_a_trajectory(certify, trajectory_file):
    """Each state in turn, or the one asked for."""
    path = trajectory_file(2)
    both = certify("updates", path)
    assert both.exit_code == 0, both.stderr
    assert [line for line in both.stdout.splitlines() if line.startswith("State")] == [
        "State 0, recorded step, float64: certified",
        "State 1, recorded step, float64: certified",
    ]
    one = certify("updates", path, "--state", "1")
    assert one.exit_code == 0
    assert both.stdout.endswith(one.stdout)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_width_is_readable(certify, state_file, width):
    """No line is wider than asked for, and no number is cut."""
    shown = certify("updates", state_file(), env={"COLUMNS": str(width)})
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= width
    assert "…" not in shown.stdout
    assert "at most 98 updates" in words(shown.stdout)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tol", "0"], ["--tol", "positive"]),
        (["--format", "float8"], ["--format", "'float8'"]),
        (["--step", "big"], ["--step", "big"]),
        (["--replay", "-1"], ["--replay"]),
        (["--state", "1"], ["--state", "one state"]),
        (["--case", "nothing"], ["--case", "'nothing'"]),
        (["--plot", "plot.gif"], ["--plot", "'plot.gif'", ".svg"]),
        (["--plot", "-"], ["--plot", ".svg"]),
    ],
)
def test_bad_options(certify, state_file, options, expected):
    """Usage, exit code 2: one sentence that names the option and the value."""
    sentence = complaint(certify("updates", state_file(), *options), 2)
    assert all(word in sentence for word in expected), sentence


def test_a_plot_is_of_one_state(certify, trajectory_file):
    """Several states would overwrite each other's figure."""
    pytest.importorskip("matplotlib")
    path = trajectory_file(2)
    assert "say which with --state" in complaint(certify("updates", path, "--plot", "p.svg"), 2)
    assert "states 0 to 1" in complaint(certify("updates", path, "--state", "2"), 2)


def test_files_that_hold_no_state(certify, tmp_path):
    """Refused as by `run`."""
    np.savez(tmp_path / "bad.npz", W=np.zeros((2, 2)))
    assert "missing" in complaint(certify("updates", "bad.npz"), 3)
    assert "no file 'absent.npz'" in complaint(certify("updates", "absent.npz"), 3)


def test_a_plot_needs_its_extra(certify, state_file, monkeypatch):
    """Without matplotlib the sentence says what to install, before any work."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("certify.cases.polyprox.stage.convergence.converge", lambda *args: pytest.fail("worked first"))
    sentence = complaint(certify("updates", state_file(), "--plot", "p.svg"), 3)
    assert "pip install 'certify[plots]'" in sentence


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_plots(certify, state_file, tmp_path, suffix, start):
    """A file of the kind its name says, the same bytes each time; the table gets the replayed distances."""
    pytest.importorskip("matplotlib")
    path = state_file()
    for name in ("a", "b"):
        result = certify("updates", path, "--plot", f"{name}.{suffix}")
        assert result.exit_code == 0, result.stderr
        assert result.stderr == f"Plot: {name}.{suffix}\n"
    data = (tmp_path / f"a.{suffix}").read_bytes()
    assert data.startswith(start)
    assert data == (tmp_path / f"b.{suffix}").read_bytes()
    table = [line.split() for line in result.stdout.split("norm bound")[-1].splitlines()[1:]]
    # the replayed distance is to the centre, which is all but the fixed point; it stays below both bounds
    assert all(float(cells[3]) <= float(cells[1]) <= float(cells[2]) for cells in table)


@pytest.mark.parametrize(
    ("changes", "options", "code"),
    [({"gamma": 3.0}, [], 4), ({}, ["--format", "float16"], 1), ({"gamma": 1e3}, ["--replay", "5"], 4)],
)
def test_plots_where_nothing_is_certified(certify, state_file, tmp_path, changes, options, code):
    """The replay and the spectrum are drawn all the same, also of a replay that overflows; the exit code is the verdict's."""
    pytest.importorskip("matplotlib")
    result = certify("updates", state_file(**changes), *options, "--plot", "p.svg")
    assert result.exit_code == code, result.stderr
    assert (tmp_path / "p.svg").stat().st_size > 10_000


@pytest.mark.parametrize("last", [0, 1, 5, 150, 100_000])
def test_rows_are_spread_in_the_logarithm(last):
    """About twelve, the first and the last among them, increasing."""
    updates = np.unique(np.linspace(0, last, 200).round().astype(np.int64))
    none = np.zeros(len(updates))
    chosen = rows(Prediction(1.0, 0.0, last, last, updates, none, none))
    assert chosen[0] == 0 and chosen[-1] == len(updates) - 1
    assert (np.diff(chosen) > 0).all()
    assert min(ROWS, len(updates)) <= len(chosen) <= ROWS + 2


def test_replayed_entry(certify, state_file, monkeypatch):
    """Updates before the ball are counted apart, and only with --replay."""
    # a ball that holds the centre's neighbourhood only
    monkeypatch.setattr("certify.cases.polyprox.stage.search.LARGEST_RADIUS", 1e-3)
    monkeypatch.setattr("certify.cases.polyprox.stage.convergence.ball_for", lambda problem, found, distance: None)
    path = state_file()
    outside = certify("updates", path)
    assert outside.exit_code == 1, outside.stderr
    assert "outside the certified ball" in words(outside.stdout)
    assert "try --replay MAX" in words(outside.stdout)
    few = certify("updates", path, "--replay", "2")
    assert few.exit_code == 1
    assert "2 replayed updates do not reach the certified ball" in words(few.stdout)
    enough = certify("updates", path, "--replay", "200")
    assert enough.exit_code == 0, enough.stderr
    assert "replayed, then at most" in words(enough.stdout)
    assert "after entry" in enough.stdout


def test_a_tolerance_that_is_met_already(certify, state_file):
    """No update is needed: the sentence says so, and there is no table of none."""
    result = certify("updates", state_file(), "--tol", "0.9")
    assert result.exit_code == 0, result.stderr
    assert "W is within 0.9 of the fixed point of the stage already, and stays so." in words(result.stdout)
    assert "updates" not in result.stdout.split("floor of rounding")[-1]
