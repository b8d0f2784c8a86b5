"""The folder of a test's reports: a name for every test id, and no two ids with the same one."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from urllib.parse import quote

_PLAIN = "[]=+,@"
_LONGEST = 160  # file names may have 255 bytes


def report_path(nodeid: str, number: int = 1) -> PurePosixPath:
    """`tests/test_mlp.py::TestMlp::test_relu[x]` as `tests/test_mlp.py/TestMlp.test_relu[x]/report.json`.

    A folder of its own, because a report has files beside it. Characters that a file system may refuse are
    percent-encoded, names that are too long are cut and get a digest. The second report of a test is `report-2.json`.
    """
    file, _, test = nodeid.partition("::")
    head, bracket, parameters = test.partition("[")
    name = quote(head.replace("::", "."), safe="") + quote(bracket + parameters, safe=_PLAIN)
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}~{hashlib.sha256(nodeid.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    folders = [quote(part, safe="") if part != ".." else "%2E%2E" for part in file.split("/")]
    return PurePosixPath(*folders, name, f"report-{number}.json" if number > 1 else "report.json")
