"""JUnit's XML from a run's results: what Jenkins counts. Each scenario planned is a test case.

A claim broken is a failure; whatever else kept a scenario from its verdict is an error, so that a
run that was killed is never green. Pytest's own file knows nothing of what was not run.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence

from harness.report.allure_model import BROKEN, FAILED, SKIPPED, Result
from harness.report.records import rfc3339, visible
from harness.report.rundir import RunInfo

_ELEMENTS = {FAILED: "failure", BROKEN: "error", SKIPPED: "skipped"}


def document(results: Sequence[Result], info: RunInfo) -> bytes:
    """``junit.xml`` of a run; times are the lab's."""
    counts = Counter(result.status for result in results)
    totals = {
        "name": "hil",
        "tests": str(len(results)),
        "failures": str(counts[FAILED]),
        "errors": str(counts[BROKEN]),
        "skipped": str(counts[SKIPPED]),
        "time": _seconds(sum(result.stop - result.start for result in results)),
        "timestamp": rfc3339(round(info.started)).removesuffix("Z"),
    }
    top = ET.Element("testsuites", {"name": "hil"})
    suite = ET.SubElement(top, "testsuite", totals)
    listed = ET.SubElement(suite, "properties")
    told = {"run": info.run_id, "lab": info.lab, "lane": info.lane, "subject": info.subject}
    for name, value in told.items():
        if value:
            ET.SubElement(listed, "property", {"name": name, "value": visible(value)})
    for result in results:
        _case(suite, result, info)
    ET.indent(top)
    text: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(suite: ET.Element, result: Result, info: RunInfo) -> None:
    pool = next((one.value for one in result.parameters if one.name == "pool"), "no pool")
    about = {
        "classname": visible(f"{info.lab}.{pool}"),
        "name": visible(result.full_name.partition("#")[2]),
        "time": _seconds(result.stop - result.start),
    }
    if "retried" in [text for name, text in result.labels if name == "tag"]:
        about["name"] += result.name.rpartition("]")[2]
    case = ET.SubElement(suite, "testcase", about)
    if result.status in _ELEMENTS:
        message = visible(result.message)
        first = message.partition("\n")[0]
        kind = {"message": first} | (
            {"type": message.partition(":")[0]} if result.status != SKIPPED else {}
        )
        ET.SubElement(case, _ELEMENTS[result.status], kind).text = message


def _seconds(seconds: float) -> str:
    return f"{max(seconds, 0.0):.3f}"
