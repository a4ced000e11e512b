"""Generates the Grafana dashboards: ``python docker/grafana/drawing [DIRECTORY]``.

The default directory is ``docker/grafana/dashboards``. A test compares the committed files with
this output, and runs every query on a real Prometheus.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import inside
import overview
from parts import Dashboard

DASHBOARDS = (
    Dashboard(
        "dragoman",
        "Dragoman",
        "How many, how fast, how full, what fails, and on what.",
        overview.ROWS,
    ),
    Dashboard(
        "dragoman-engine",
        "Dragoman: inside",
        "Where the time of a request goes, the shapes of the work, and the process.",
        inside.ROWS,
    ),
)


def main() -> None:
    ours = Path(__file__).parent.parent / "dashboards"
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else ours
    for dashboard in DASHBOARDS:
        path = directory / f"{dashboard.name}.json"
        path.write_text(json.dumps(dashboard.draw(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
