"""Answers of Prometheus' API and pages of exporters, made up.

`python -m tests.builders.prometheus` writes `sample_traces/formats/prometheus-json/` and `prometheus-text/` again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["PAGE", "answer", "moment", "ranged", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"
_TX = "node_infiniband_port_data_transmitted_bytes_total"

PAGE = """\
# HELP node_infiniband_port_data_transmitted_bytes_total Number of data octets transmitted on all links
# TYPE node_infiniband_port_data_transmitted_bytes_total counter
node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"} 4.2535e+12
node_infiniband_port_data_transmitted_bytes_total{device="mlx5_1",port="1"} 77
# HELP node_infiniband_rate_bytes_per_second Maximum signal transfer rate
# TYPE node_infiniband_rate_bytes_per_second gauge
node_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 5e+10
# HELP node_infiniband_link_downed_total Number of times the link failed
# TYPE node_infiniband_link_downed_total counter
node_infiniband_link_downed_total{device="mlx5_0",port="1"} 255
# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 812.25
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="3",UUID="GPU-00000000-0000-4000-8000-000000000003",device="nvidia3",modelName="Any \\"GPU\\", {80G}",Hostname="node-a"} 1410
# HELP scrape_seconds A distribution
# TYPE scrape_seconds histogram
scrape_seconds_bucket{interface="eth0",le="+Inf"} 3
scrape_seconds_sum{interface="eth0"} 3
"""


def ranged(name: str, values: Sequence[tuple[float, str]], **labels: str) -> dict[str, Any]:
    """A series of a range. `name` may be empty: an expression's result has none."""
    return {"metric": {**({"__name__": name} if name else {}), **labels}, "values": [list(v) for v in values]}


def moment(name: str, at: float, value: str, **labels: str) -> dict[str, Any]:
    """A series of an instant query."""
    return {"metric": {"__name__": name, **labels}, "value": [at, value]}


def answer(series: Sequence[Mapping[str, Any]], kind: str = "matrix", **more: object) -> dict[str, Any]:
    """The whole answer; `more` are other members of the document."""
    return {"status": "success", "data": {"resultType": kind, "result": list(series)}, **more}


def write_samples(root: Path = FORMATS) -> None:
    """Writes the samples of both parsers below `root`."""
    for name in ("prometheus-json", "prometheus-text"):
        (root / name).mkdir(parents=True, exist_ok=True)
    hosts = []
    for host in (1, 2):
        values = [(1_785_000_000 + s, str(9_007_199_254 + s * 40_000_000_000 + 4096 * host)) for s in range(4)]
        hosts.append(ranged(_TX, values, instance=f"node-{host}:9100", job="node", device="mlx5_0", port="1"))
    (root / "prometheus-json" / "transmitted.json").write_text(json.dumps(answer(hosts), separators=(",", ":")))
    (root / "prometheus-text" / "node-a.prom").write_text(PAGE)


if __name__ == "__main__":
    write_samples()
