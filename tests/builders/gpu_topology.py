"""GPUs beside adapters, as nvidia-smi and NCCL print them, and the samples of both: `python -m tests.builders.gpu_topology`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["bridge", "gpu", "matrix", "net", "system", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"
_LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect\n"


def matrix(paths: Sequence[Sequence[str]], *, names: Sequence[str] | None = None, columns: Sequence[str] | None = None, separator: str = "\t") -> str:
    """The output of `nvidia-smi topo -m`: `paths[gpu][adapter]`. `names`: of the legend; `columns`: of the adapters, NIC0 … by default."""
    gpus, adapters = len(paths), list(columns or (f"NIC{n}" for n in range(len(paths[0]))))
    lines = [separator.join(["", *(f"GPU{n}" for n in range(gpus)), *adapters, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for g, row in enumerate(paths):
        lines.append(separator.join([f"GPU{g}", *(" X " if n == g else "NV18" for n in range(gpus)), *row, "0-31,64-95", "0", "", "N/A"]))
    for a, adapter in enumerate(adapters):
        lines.append(
            separator.join([adapter, *(paths[g][a] for g in range(gpus)), *(" X " if n == a else "SYS" for n in range(len(adapters))), "", "", "", ""])
        )
    legend = "\nNIC Legend:\n\n" + "".join(f"  NIC{n}: {name}\n" for n, name in enumerate(names)) if names is not None else ""
    return "\n".join(lines) + "\n" + _LEGEND + legend


def gpu(busid: str, dev: int) -> str:
    """A GPU's element."""
    return f'<pci busid="{busid}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{dev}" sm="90" rank="{dev}" gdr="1"/></pci>'


def net(busid: str, *names: str, guid: str = "0xa87cb10003e1a258", speed: str = "400000", port: str = "1") -> str:
    """An adapter's element with one net for each name."""
    nets = "".join(f'<net name="{n}" dev="{i}" speed="{speed}" port="{port}" guid="{guid}" maxconn="131072" gdr="1"/>' for i, n in enumerate(names))
    return f'<pci busid="{busid}" class="0x020700"><nic>{nets}</nic></pci>'


def bridge(busid: str, *children: str) -> str:
    """A PCIe switch's element."""
    return f'<pci busid="{busid}" class="0x060400" link_width="16">' + "\n".join(children) + "</pci>"


def system(*cpus: Sequence[str], hashes: Sequence[str] | None = None) -> str:
    """The document: children of each CPU."""
    inner = [
        f'<cpu{f" host_hash={chr(34)}{hashes[n]}{chr(34)}" if hashes else ""} numaid="{n}" arch="x86_64" vendor="GenuineIntel">'
        + "\n".join(children)
        + "</cpu>"
        for n, children in enumerate(cpus)
    ]
    return '<system version="1">\n' + "\n".join(inner) + "\n</system>\n"


def write_samples(root: Path = FORMATS) -> None:
    """Writes the samples below `root`."""
    for name in ("nvidia-smi-topo", "nccl-topology"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "nvidia-smi-topo" / "node-a.txt").write_text(matrix([["PIX", "SYS"], ["SYS", "PXB"]], names=["mlx5_0", "mlx5_1"]))
    near = bridge("0000:16:00.0", gpu("0000:18:00.0", 0), net("0000:19:00.0", "mlx5_0"))
    far = bridge("0000:96:00.0", gpu("0000:98:00.0", 1), net("0000:99:00.0", "mlx5_1", guid="0xb87cb10003e1a258"))
    (root / "nccl-topology" / "node-a.xml").write_text(system([near], [far]).rstrip("\n"))


if __name__ == "__main__":
    write_samples()
