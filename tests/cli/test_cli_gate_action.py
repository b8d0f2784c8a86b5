"""What runs the gate elsewhere: the GitHub Action, the pre-commit hook, the Makefile, and the examples of the page."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gate_files import ROUNDING, UPDATES, bound, drop, write

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
INSTALL, REPORT, GATE, UPLOAD = ACTION["runs"]["steps"]
PAGE = (ROOT / "docs" / "gate.md").read_text("utf-8")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture
def step(tmp_path):
    """Run a step of the action as GitHub does, with inputs and outputs of earlier steps; the process and its outputs."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "certify").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m certify.cli.main "$@"\n')
    (binaries / "certify").chmod(0o755)

    def run(chosen, inputs, outputs=(), env=()):
        values = {f"inputs.{name}": entry.get("default", "") for name, entry in ACTION["inputs"].items()}
        values |= {f"inputs.{name}": value for name, value in inputs.items()}
        values |= {"github.action_path": str(ROOT), **dict(outputs)}
        assert inputs.keys() <= ACTION["inputs"].keys()
        variables = {k: re.sub(r"\$\{\{ (.*?) \}\}", lambda m: values[m[1]], v) for k, v in chosen["env"].items()}
        (tmp_path / "output").write_text("")
        surroundings = {
            **os.environ,
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_PATH": str(tmp_path / "path"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            **variables,
            **dict(env),
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", chosen["run"]]
        done = subprocess.run(
            command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=60, check=False
        )
        lines = (tmp_path / "output").read_text().splitlines()
        return done, dict(line.split("=", 1) for line in lines)

    return run


def test_the_action_is_well_formed():
    """A composite action; no input stands in a script, where it could become a command; every input is used."""
    assert ACTION["runs"]["using"] == "composite"
    scripts = [chosen["run"] for chosen in (INSTALL, REPORT, GATE)]
    assert not any("${{" in script for script in scripts)
    rest = json.dumps(ACTION["runs"])
    assert all(f"inputs.{name}" in rest for name in ACTION["inputs"])
    assert all(entry["description"] for entry in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))
    assert UPLOAD["uses"].startswith("github/codeql-action/upload-sarif@")


@needs_bash
@pytest.mark.parametrize(("version", "expected"), [("", str(ROOT)), ("certify-9.whl", "certify-9.whl")])
def test_the_step_that_installs(step, tmp_path, version, expected):
    """Into an environment of its own, from the action's own code unless told otherwise."""
    # stands for python3, so that the test needs no network
    fake = tmp_path / "bin" / "python3"
    fake.write_text(
        "#!/bin/sh\n"
        'mkdir -p "$3/bin"\n'
        'printf \'#!/bin/sh\\necho "$@" >> "$RUNNER_TEMP/installed"\\n\' > "$3/bin/python"\n'
        'chmod +x "$3/bin/python"\n'
    )
    fake.chmod(0o755)
    done, _ = step(INSTALL, {"version": version})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "installed").read_text().split()[-1] == expected
    assert (tmp_path / "path").read_text() == f"{tmp_path}/certify-gate/bin\n"


@needs_bash
def test_the_step_that_makes_the_report(step, tmp_path, state_file):
    """From a state, with options, whatever its verdict; or the file that is there; one of both must be given."""
    state = state_file(rho=1e9)
    options = "--format float16 --radius 0"
    done, outputs = step(REPORT, {"state": str(state), "run-options": options})
    assert done.returncode == 0, done.stderr
    assert outputs == {"path": str(tmp_path / "certify-report.json")}
    assert json.loads((tmp_path / "certify-report.json").read_text())["verdict"] == "refuted"
    done, outputs = step(REPORT, {"report": "mine.json"})
    assert (done.returncode, outputs) == (0, {"path": "mine.json"})
    done, outputs = step(REPORT, {"state": "absent.npz"})
    assert (done.returncode, outputs) == (3, {})
    done, outputs = step(REPORT, {})
    assert (done.returncode, outputs) == (2, {})
    assert done.stdout.startswith("::error ")


@needs_bash
def test_the_step_that_compares(step, tmp_path):
    """Rules one a line, blank ones left out; annotations and a summary; the exit code of the gate."""
    write(tmp_path / "base line.json")
    write(tmp_path / "report.json", bound(ROUNDING, "eps_W", "0x1.2p-20"))
    outputs = {"steps.report.outputs.path": "report.json"}
    inputs = {"baseline": "base line.json", "fail-on": "eps_W:20 %\n\n  count:5%\n"}
    done, made = step(GATE, inputs, outputs)
    assert (done.returncode, made) == (0, {}), done.stderr
    assert "::notice title=certify gate::passed" in done.stdout
    assert "✅" in (tmp_path / "summary.md").read_text("utf-8")
    done, made = step(GATE, {**inputs, "fail-on": "eps_W:10%", "upload-sarif": "true"}, outputs)
    assert done.returncode == 1
    assert "::error file=base line.json," in done.stdout
    (result,) = json.loads(Path(made["sarif"]).read_text())["runs"][0]["results"]
    assert result["ruleId"] == "worse-bound"
    done, made = step(GATE, {**inputs, "fail-on": "nothing:10%", "upload-sarif": "true"}, outputs)
    assert done.returncode == 2
    done, made = step(GATE, {"baseline": "$(touch owned)", "upload-sarif": "false"}, outputs)
    assert (done.returncode, made) == (3, {})
    assert not (tmp_path / "owned").exists()


@needs_bash
def test_a_sarif_file_of_an_earlier_run_is_not_sent(step, tmp_path):
    """Where the gate refuses its input there is nothing to send."""
    write(tmp_path / "report.json")
    (tmp_path / "certify-gate.sarif").write_text("old")
    outputs = {"steps.report.outputs.path": "report.json"}
    done, made = step(GATE, {"baseline": "absent.json", "upload-sarif": "true"}, outputs)
    assert (done.returncode, made) == (3, {})


@pytest.mark.parametrize(("change", "code"), [(None, 0), (drop(UPDATES), 1)])
def test_the_hook(tmp_path, change, code):
    """The entry with the arguments of the page, as pre-commit runs it: without a shell, at the root of the repository."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "build").mkdir()
    write(tmp_path / "tests" / "baseline.json")
    write(tmp_path / "build" / "report.json", change)
    (hooks,) = [block for block in examples("yaml") if "repos" in block]
    (used,) = hooks["repos"][0]["hooks"]
    assert (used["id"], HOOK["language"], HOOK["pass_filenames"]) == (HOOK["id"], "python", False)
    assert re.fullmatch(used["files"], "build/report.json")
    program, *arguments = shlex.split(HOOK["entry"])
    assert program == "certify"
    command = [sys.executable, "-m", "certify.cli.main", *arguments, *used["args"]]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == code


def test_the_workflow_of_the_page():
    """It uses inputs that the action has, and rules that are rules."""
    from certify.gate import parse_rule

    (workflow,) = [block for block in examples("yaml") if "jobs" in block]
    (used,) = [s["with"] for s in workflow["jobs"]["gate"]["steps"] if "certify@" in s["uses"]]
    assert used.keys() <= ACTION["inputs"].keys()
    assert all(name in used for name, entry in ACTION["inputs"].items() if entry.get("required"))
    assert [parse_rule(rule).bound for rule in used["fail-on"].split()] == ["eps_W", "count", "q"]


def test_the_page_names_every_code_and_format():
    """What the gate finds and writes is all in the page, and rules in its table are rules."""
    from certify.cli.gate import FORMATS

    from certify.gate import Code, parse_rule
    from certify.gate.directions import LARGER_IS_BETTER

    assert all(f"`{word}`" in PAGE for word in [*Code, *FORMATS, *LARGER_IS_BETTER])
    rules = re.findall(r"^\| `([^`]+:[^`]+)` \|", PAGE, re.MULTILINE)
    assert len([parse_rule(rule) for rule in rules]) == 5


def test_the_baseline_of_this_project(certify):
    """The committed report of the demo can be read, and passes against itself by the rules of the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    rules = re.findall(r"--fail-on '([^']+)'", makefile)
    baseline = ROOT / "tests" / "data" / "demo.baseline.json"
    assert str(baseline.relative_to(ROOT)) in makefile
    result = certify("gate", baseline, baseline, *(f"--fail-on={rule}" for rule in rules))
    assert (result.exit_code, bool(rules)) == (0, True), result.output


def examples(language):
    """The code blocks of the page in one language, parsed."""
    return [yaml.safe_load(block) for block in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)]
