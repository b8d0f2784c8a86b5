"""The pytest plugin: fixtures that certify kernels; everything heavy is imported when a fixture is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from certify.cases.kernel import KernelReport

OPTION, INI = "--certify-report", "certify_report_dir"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini entry for the directory of reports."""
    parser.getgroup("certify").addoption(
        OPTION,
        metavar="DIR",
        help="write the reports of certify_report below DIR, in a folder a test, for certify gate to compare",
    )
    parser.addini(INI, f"directory for the reports of certify_report, unless {OPTION} names one", default="")


@pytest.fixture
def assert_certified() -> Callable[..., Any]:
    """`certify.testing.assert_certified`: fail unless the error of a kernel is proved to be small."""
    from certify.testing import assert_certified

    return assert_certified


@pytest.fixture
def assert_within() -> Callable[..., Any]:
    """`certify.testing.assert_within`: fail unless the results of a real kernel are within their proved bound."""
    from certify.testing import assert_within

    return assert_within


@pytest.fixture
def certify_report(request: pytest.FixtureRequest) -> Callable[..., KernelReport]:
    """`certify.kernel_report`, whose report is also written below the directory of reports, if the run has one.

    Its folder is named by the id of the test, so that a later run overwrites it; a second report of one test gets a number.
    """
    from certify.cases.kernel import kernel_report
    from certify.testing.naming import report_path

    folder = _folder(request.config)
    count = 0

    def certified(*args: Any, **options: Any) -> KernelReport:
        nonlocal count
        count += 1
        report = kernel_report(*args, **options)
        if folder is not None:
            path = folder / report_path(request.node.nodeid, count)
            path.parent.mkdir(parents=True, exist_ok=True)
            report.write(path)
        return report

    return certified


def _folder(config: pytest.Config) -> Path | None:
    """Where reports go: the option is relative to where pytest was started, the ini entry to the root directory."""
    option, entry = config.getoption(OPTION), config.getini(INI)
    if option:
        return config.invocation_params.dir / str(option)
    return config.rootpath / str(entry) if entry else None
