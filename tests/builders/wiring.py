"""A wiring table of a small fabric: `python -m tests.builders.wiring` writes the sample."""

from __future__ import annotations

from pathlib import Path

__all__ = ["host_table", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"


def host_table(hosts: int = 4, rails: int = 2) -> str:
    """One row per host and adapter; adapter i goes to leaf i."""
    rows = [f"node-{h},mlx5_{r},ens{r + 1}f0np0,leaf{r + 1},Ethernet{8 * h},400G" for h in range(hosts) for r in range(rails)]
    return "\n".join(["host,nic,netdev,switch,port,speed", *rows, ""])


def write_samples(root: Path = FORMATS) -> None:
    """Writes the sample below `root`."""
    (root / "wiring-table").mkdir(parents=True, exist_ok=True)
    (root / "wiring-table" / "topology.csv").write_text(host_table())


if __name__ == "__main__":
    write_samples()
