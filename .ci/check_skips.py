"""Fail when a test was skipped for a reason that is not on the list.

python .ci/check_skips.py ALLOWED.txt REPORT.xml
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def main(allowed_file: str, report: str) -> int:
    """Print every skip that no line of `allowed_file` is part of; 1 if there is one."""
    lines = Path(allowed_file).read_text().splitlines()
    allowed = [line for line in lines if line and not line.startswith("#")]
    unexpected = [
        f"{case.get('classname')}.{case.get('name')}: {skip.get('message')}"
        for case in ElementTree.parse(report).iter("testcase")
        for skip in case.iter("skipped")
        if not any(reason in (skip.get("message") or "") for reason in allowed)
    ]
    for line in unexpected:
        print(f"unexpected skip: {line}")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
