"""Tables of counters, made up. `python -m tests.builders.counter_csv` writes `sample_traces/formats/counter-csv/` again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["NVIDIA_SMI", "intervals", "table", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"

NVIDIA_SMI = """\
timestamp, index, uuid, name, utilization.gpu [%], clocks.current.sm [MHz], power.draw [W], memory.used [MiB], clocks_throttle_reasons.active
2026/07/25 18:13:20.125, 0, GPU-00000000-0000-4000-8000-000000000000, Any GPU, 45 %, 1410 MHz, 300.25 W, 1024 MiB, 0x0000000000000004
2026/07/25 18:13:20.127, 1, GPU-00000000-0000-4000-8000-000000000001, Any GPU, [N/A], 1980 MHz, [Not Supported], 0 MiB, 0x0000000000000000
"""


def table(headings: str, rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """A table with headings that are given with commas."""
    lines = [delimiter.join(headings.split(",")), *(delimiter.join(map(str, r)) for r in rows)]
    return "\n".join(lines) + "\n"


def intervals() -> str:
    """Counts of half seconds of one port of a switch, with a gap; the time of day is eight hours ahead of UTC."""
    counts = (0, 7_000, 2_000_000, 0, 9_000, 0, 8_500, 0, 9_250, 4_000)
    moments = (0, 500, 250_000, 250_500, 251_000, 251_500, 252_000, 252_500, 253_000, 253_500)
    rows = [
        (
            f"2026/07/26 周日 02:{20 + m // 60_000:02}:{m // 1000 % 60:02}.{m % 1000:03}",
            1_785_003_600_000 + m,
            "leaf-4.pod",
            "TwoHundredGigE1/0/7:1",
            c * 1000,
            c,
            c / 100,
        )
        for c, m in zip(counts, moments, strict=True)
    ]
    return table("SaveTime,SaveTimeUTC,DeviceName,PortName,InOctets,InPkts,InRatio", rows)


def write_samples(root: Path = FORMATS) -> None:
    """Writes the samples below `root`."""
    (root / "counter-csv").mkdir(parents=True, exist_ok=True)
    (root / "counter-csv" / "leaf-4.csv").write_text(intervals())
    (root / "counter-csv" / "gpus.csv").write_text(NVIDIA_SMI)
    rows = [(1_785_000_000 + s, "node-a", f"mlx5_{d}", 1, 1000 + 90 * s, 2000 + 80 * s, d) for s in range(3) for d in range(2)]
    (root / "counter-csv" / "adapters.csv").write_text(table("timestamp,host,device,port,port_xmit_data,port_rcv_data,symbol_error", rows))


if __name__ == "__main__":
    write_samples()
