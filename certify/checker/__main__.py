"""The command `python -m certify.checker`, and `certify check`, which is the same."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

from certify.checker import Beyond, Finding, Rejected, check, claims_of, likeness, parse_json
from certify.checker.document import MAX_BYTES, shown

DESCRIPTION = "Prove every claim of a report again, from the state file alone."
EPILOG = """Exit codes: 0 every certified or refuted claim is proved again; 1 nothing is wrong, but a claim is beyond this
checker; 2 usage; 3 a claim, the report or a file is rejected; 70 the checker itself failed."""
MOST_CANDIDATES = 100


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser("python -m certify.checker", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("report", metavar="REPORT", help="the report file")
    parser.add_argument("--state", metavar="FILE", help="the states; without it, the file beside the report that fits")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    given = parser.parse_args()
    try:
        return run(given.report, given.state, given.json)
    except Exception:  # a crash proves nothing, and Python's own exit code for it is that of "nothing is wrong"
        traceback.print_exc()
        return 70


def run(report: str, state: str | None, as_json: bool, name: str = "certify.checker") -> int:
    """Check, print the findings, and return the exit code."""
    last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > 2:
            last = time.monotonic()
            print(f"{done} of {total} claims checked", file=sys.stderr, flush=True)

    try:
        data = _bytes(Path(report))
        found = _bytes(Path(state)) if state else _beside(Path(report), data)
        findings = check(data, found, lambda file: _bytes(Path(report).parent / file), progress)
    except (Rejected, Beyond) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 3 if isinstance(error, Rejected) else 1
    rows = [{**vars(x), "proved": {k: str(value) for k, value in x.proved.items()}} for x in findings]
    print(json.dumps(rows, indent=1) if as_json else "\n".join(_lines(findings)))
    wrong = [x for x in findings if x.verdict == "rejected"]
    for x in wrong:
        print(f"{name}: claim {x.id} is rejected: {x.sentence}", file=sys.stderr)
    return 3 if wrong else int(any(x.verdict == "undecided" != x.claimed for x in findings))


def _bytes(path: Path) -> bytes:
    """A regular file's contents, at most one byte more than is read of any file."""
    try:
        if path.is_file():
            with path.open("rb") as stream:
                return stream.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        pass
    raise Rejected(f"{shown(str(path))} is no file that can be read")


def _beside(report: Path, data: bytes) -> bytes:
    """The file beside the report that fits its subject best; the digests of its tensors decide."""
    claims_of(document := parse_json(data, "the report"))
    best, found = 0, b""
    files = sorted(x for x in report.parent.iterdir() if x.suffix in (".safetensors", ".npz") and x.is_file())
    for path in files[:MOST_CANDIDATES]:
        fit = likeness(document["subject"], contents := _bytes(path))
        best, found = (fit, contents) if fit > best else (best, found)
    if not best:
        raise Rejected("no file beside the report holds the state it is about: name it with --state")
    return found


def _lines(findings: list[Finding]) -> list[str]:
    lines = []
    for x in findings:
        bounds = "  ".join(f"{name} {float(value):.3g}" for name, value in x.proved.items())
        note = "" if x.verdict == x.claimed != "undecided" else x.sentence
        lines.append(f"{x.verdict:9}  {x.id}  {bounds or note}".rstrip())
    n = {v: sum(x.verdict == v for x in findings) for v in ("certified", "refuted", "undecided", "rejected")}
    proved = f"{n['certified']} are certified and {n['refuted']} refuted, proved again here"
    return [*lines, f"Of {len(findings)} claims {proved}; {n['undecided']} undecided, {n['rejected']} rejected."]


if __name__ == "__main__":
    sys.exit(main())
