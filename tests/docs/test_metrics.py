"""docs/operating.md lists every metric under the name that /metrics shows, and no other."""

import re
from pathlib import Path

from proxy.metrics import Metrics

OPERATING = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")


def documented() -> set[str]:
    """The names in the first column of the table of metrics."""
    section = OPERATING.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    columns = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return set(re.findall(r"`(slipstream_\w+)", "\n".join(columns)))


def test_every_metric_is_documented_under_the_name_that_is_shown() -> None:
    shown = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for metric in Metrics().registry.collect()
    }
    assert shown == documented()
