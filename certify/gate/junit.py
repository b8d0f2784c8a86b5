"""The comparison as JUnit XML: one test case a claim."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from certify.gate.findings import Comparison, Source
from certify.states.quoting import quoted


def render(comparison: Comparison, source: Source) -> str:
    """A document in the dialect that Jenkins, GitLab and others read, valid against `junit-10.xsd`.

    Without times and a host: the same comparison gives the same document. Every text is printable, so no character
    occurs that XML cannot hold.
    """
    counts: dict[str, Any] = {
        "tests": str(len(comparison.changes)),
        "failures": str(len(comparison.failed)),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites", name="certify gate", **counts)
    suite = ElementTree.SubElement(root, "testsuite", name="certify gate", skipped="0", **counts)
    properties = ElementTree.SubElement(suite, "properties")
    facts = [
        ("baseline", quoted(source.baseline)[1:-1]),
        ("current", quoted(source.current)[1:-1]),
        *(("rule", quoted(rule.text)[1:-1]) for rule in comparison.rules),
        *(("note", note) for note in comparison.notes),
    ]
    for name, value in facts:
        ElementTree.SubElement(properties, "property", name=name, value=value)
    for change in comparison.changes:
        case = ElementTree.SubElement(suite, "testcase", name=change.id, classname=f"certify.{change.kind}")
        failures = change.failures
        for finding in failures:
            failure = ElementTree.SubElement(case, "failure", type=finding.code.value, message=finding.message)
            failure.text = f"{change.id} {finding.message}"
        others = [finding.message for finding in change.findings if finding not in failures]
        if others:
            ElementTree.SubElement(case, "system-out").text = "\n".join(others)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}'
