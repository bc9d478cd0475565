"""Reports of RAS as `ncclras` prints them, from what the ranks of a job did: text of three generations, JSON and monitor events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders.kineto_raw import Parsed
from tracelab.plugins import SourceFile
from tracelab_parsers.nccl_ras import PARSER

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces" / "formats" / "nccl-ras"
OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
GENERATIONS = ("2.24.3", "2.26.2", "2.28.9", "2.30.3")
STATES = ("NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT")


@dataclass
class Rank:
    """A rank of a communicator. `nvml` differs from `cuda` where the process sees some GPUs alone; `away`: it does not answer."""

    rank: int
    host: str = "10.0.0.1"
    pid: int = 0
    cuda: int = 0
    nvml: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    state: str = "RUNNING"
    error: int = 0
    away: bool = False
    dead: bool = False

    @property
    def gpu(self) -> str:
        return f"{self.cuda}" if self.nvml is None else f"{self.cuda} (NVML {self.nvml})"

    @property
    def owner(self) -> str:
        return f"GPU {self.gpu} managed by process {self.pid} on node {self.host}"


@dataclass
class Comm:
    hash: int
    ranks: list[Rank]

    @property
    def present(self) -> list[Rank]:
        return [r for r in self.ranks if not r.away and r.state != "NOCOMM"]


def ranks(n: int, counts: dict[str, int], per_host: int = 4) -> list[Rank]:
    return [Rank(r, f"10.0.0.{1 + r // per_host}", 4000 + r, r % per_host, counts=dict(counts)) for r in range(n)]


def outlier(count: int, total: int) -> bool:
    return count == 1 or (count <= 10 and count <= total / 4)


def text_report(comms: Sequence[Comm], version: str = "2.28.9", timeouts: int = 0, *, uniform: bool = True) -> str:
    """A status report as text; every communicator is a group of its own."""
    peers = {(r.host, r.pid): r for c in comms for r in c.ranks}
    hosts = {host for host, _ in peers}
    away = sorted(((h, p) for (h, p), r in peers.items() if r.away and not r.dead))
    dead = sorted(((h, p) for (h, p), r in peers.items() if r.dead))
    out = [f"NCCL version {version} compiled with CUDA 12.9", "CUDA runtime version 12090, driver version 13000", "", "Job summary", "===========", ""]
    if uniform:
        out += ["  Nodes  Processes         GPUs  Processes     GPUs", "(total)   per node  per process    (total)  (total)"]
        out += [f"{len(hosts):7d}  {len(peers) // len(hosts):9d}  {1:11d}  {len(peers):9d}  {len(peers):7d}"]
    else:
        out += ["  Nodes  Processes         GPUs", "          per node  per process", f"{len(hosts) - 1:7d}  {4:9d}  {1:11d}", f"{1:7d}  {3:9d}  {1:11d}"]
        out += ["", "  Nodes  Processes         GPUs", "(total)    (total)      (total)", f"{len(hosts):7d}  {len(peers):9d}  {len(peers):11d}"]
        out += ["", "The outlier node:", "  Node 10.0.0.2 running processes 4004,4005,4006"]
    out += ["", "Communicators... (0.02s)", "=============", ""]
    out += ["Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors", "    #  in group  per comm  per node  per comm  in group"]
    for number, c in enumerate(comms):
        words = ",".join(_errors(c)) or "OK"
        status = STATES[max((STATES.index(r.state) for r in c.present), default=0)]
        nodes = Counter(r.host for r in c.present)
        most, least = max(nodes.values()), min(nodes.values())
        shown = f"{most}" if most == least else f"{least}-{most}"
        out += [f"{number:5d}  {1:8d}  {len(nodes):8d}  {shown:>8s}  {len(c.ranks):8d}  {len(c.present):8d}  {status:>8s}  {words:>6s}"]
    out += ["", "Errors", "======", ""]
    for kind, listed, words in (("INCOMPLETE", away, "Missing communicator data from"), ("DEAD", dead, "")):
        if listed:
            many = "es" if len(listed) > 1 else ""
            be = "are" if many else "is"
            out += [
                kind,
                f"  {words} {len(listed)} job process{many}"
                if words
                else f"  {len(listed)} job process{many} {be} considered dead (unreachable via the RAS network)",
            ]
            out += [f"  Process {pid} on node {host} managing GPU {peers[host, pid].gpu}" for host, pid in listed] + [""]
    for number, c in enumerate(comms):
        out += _incomplete(number, c, version) + _error(number, c)
    out += ["Warnings", "========", ""]
    if timeouts:
        out += ["TIMEOUT", f"  Encountered {timeouts} communication timeout{'s' if timeouts > 1 else ''} while gathering communicator data", ""]
    for number, c in enumerate(comms):
        out += _mismatch(number, c, version)
    return "\n".join(out) + "\n"


def _errors(c: Comm) -> Iterator[str]:
    if any(r.away for r in c.ranks):
        yield "INCOMPLETE"
    if any(r.error for r in c.ranks):
        yield "ERROR"
    if len({tuple(r.counts.get(o, 0) for o in OPERATIONS) for r in c.present}) > 1 or len({r.state for r in c.ranks if not r.away}) > 1:
        yield "MISMATCH"


def _incomplete(number: int, c: Comm, version: str) -> list[str]:
    lost = [r for r in c.ranks if r.away]
    if not lost:
        return []
    out = [f"#{number}-0 ({c.hash:016x}) INCOMPLETE", f"  Missing communicator data from {len(lost)} rank{'s' if len(lost) > 1 else ''}"]
    if outlier(len(lost), 40):
        if version < "2.26":
            out += [f"  The missing rank{'s' if len(lost) > 1 else ''}: {','.join(str(r.rank) for r in lost)}"]
        else:
            out += [f"  Rank {r.rank} -- {r.owner}" for r in lost]
    return [*out, ""]


def _error(number: int, c: Comm) -> list[str]:
    failed = [r for r in c.ranks if r.error]
    if not failed:
        return []
    out = [f"#{number}-0 ({c.hash:016x}) ERROR", f"  Asynchronous error{'s' if len(failed) > 1 else ''} on {len(failed)} rank{'s' if len(failed) > 1 else ''}"]
    return [*out, *_shares([(r, "Remote process error") for r in failed], len(c.ranks), "reported {}".format, "reported {}".format), ""]


def _mismatch(number: int, c: Comm, version: str) -> list[str]:
    if "MISMATCH" not in _errors(c):
        return []
    out, total = [f"#{number}-0 ({c.hash:016x}) MISMATCH"], len(c.ranks)
    answering = [r for r in c.ranks if not r.away]
    if len({r.state for r in answering}) > 1:
        named = "UNKNOWN" if version < "2.26" else "NOCOMM"
        states = [(r, named if r.state == "NOCOMM" else r.state) for r in answering]
        out += ["  Communicator ranks have different status", *_shares(states, total, "have status {}".format, "has status {}".format)]
    counted: dict[str, Callable[[Rank], int]]
    if version < "2.26":
        counted = {"collective": lambda r: sum(r.counts.values())}
    else:
        counted = {name: lambda r, name=name: r.counts.get(name, 0) for name in OPERATIONS}  # type: ignore[misc]
    for name, count in counted.items():
        values = [(r, str(count(r))) for r in c.present]
        if len({v for _, v in values}) > 1:
            out += [f"  Communicator ranks have different {name} operation counts"]
            out += [*_shares(values, total, lambda v: _launched(v, "have"), lambda v: _launched(v, "has")), ""]
    return out  # nothing stands between a comparison of states and what follows


def _launched(value: str, verb: str) -> str:
    return f"{verb} launched up to operation {value}" if value != "0" else f"{verb} not launched any operations"


def _shares(values: Sequence[tuple[Rank, str]], total: int, many: Callable[[str], str], one: Callable[[str], str]) -> Iterator[str]:
    """Ranks that agree, the most first; who they are where they are few."""
    for value, count in sorted(Counter(v for _, v in values).items(), key=lambda item: -item[1]):
        alike = [r for r, v in values if v == value]
        if count > 1:
            yield f"  {count} ranks {many(value)}"
            if outlier(count, total):
                yield from (f"  Rank {r.rank} -- {r.owner}" for r in alike)
        else:
            yield f"  Rank {alike[0].rank} {one(value)} -- {alike[0].owner}"


def json_report(comms: Sequence[Comm], version: str = "2.30.3", timeouts: int = 0) -> str:
    """A status report as JSON; 2.28 forgets a comma."""
    forgotten = "" if version.startswith("2.28") else ","
    pieces = []
    for c in comms:
        lost = [r for r in c.ranks if r.away or r.state == "NOCOMM"]
        known = ",\n".join(_json_rank(r) for r in c.present)
        absent = ",\n".join(
            f"{_json_head(r)}{forgotten}\n"
            f'          "status": {{\n            "unresponsive": {_word(r.away)},\n            "considered_dead": {_word(r.dead)}\n          }}\n        }}'
            for r in lost
        )
        pieces.append(
            f'    {{\n      "hash": "{c.hash:#x}",\n      "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",\n      "size": {len(c.ranks)},\n'
            f'      "ranks_count": {len(c.present)},\n      "missing_ranks_count": {len(lost)},\n      "ranks": [\n{known}\n      ],\n'
            f'      "missing_ranks": [\n{absent}\n      ]\n    }}'
        )
    head = f'{{\n  "nccl_version": "{version}",\n  "cuda_runtime_version": 12090,\n  "cuda_driver_version": 13000,\n  "timestamp": "2026-07-25 17:20:00",\n'
    foot = f'\n  ],\n  "ras": {{\n    "collection_time_sec": 0.002,\n    "timeouts_count": {timeouts}\n  }}\n}}\n'
    listed = ",\n".join(pieces)
    return f'{head}  "communicators_count": {len(comms)},\n  "communicators": [\n{listed}{foot}'


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _json_head(r: Rank) -> str:
    nvml = r.cuda if r.nvml is None else r.nvml
    place = f'          "cuda_dev": {r.cuda},\n          "nvml_dev": {nvml}'
    return f'        {{\n          "rank": {r.rank},\n          "host": "{r.host}",\n          "pid": {r.pid},\n{place}'


def _json_rank(r: Rank) -> str:
    counts = ",\n".join(f'            "{name}": {r.counts.get(name, 0)}' for name in OPERATIONS)
    return (
        f'{_json_head(r)},\n          "status": {{\n            "init_state": {7 if r.state == "INIT" else 0},\n            "async_error": {r.error},\n'
        f'            "finalize_called": {_word(r.state == "FINALIZE")},\n            "destroy_flag": false,\n'
        f'            "abort_flag": {_word(r.state == "ABORT")}\n'
        f'          }},\n          "collective_counts": {{\n{counts}\n          }}\n        }}'
    )


def parse_text(folder: Path, text: str | bytes, name: str = "ras.txt") -> Parsed:
    """The rows of a file."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    parsed = Parsed()
    parsed.info = PARSER.parse(SourceFile(path, path.name), parsed)
    return parsed


def straggler() -> list[Comm]:
    """Rank 6 of eight is four operations behind; rank 3 of the second communicator does not answer."""
    world, pair = ranks(8, {"AllReduce": 640, "AllGather": 12}), ranks(4, {"ReduceScatter": 33})
    world[6].counts["AllReduce"] = 636
    pair[3].away = True
    return [Comm(0x78DB921D1C117B4A, world), Comm(0x00DB921D1C117B4B, pair)]


def main() -> None:
    """Writes the samples again."""
    SAMPLES.mkdir(parents=True, exist_ok=True)
    (SAMPLES / "ras-status.txt").write_text(text_report(straggler(), "2.28.9", timeouts=1))
    (SAMPLES / "ras-status.json").write_text(json_report(straggler(), "2.30.3", timeouts=1))


if __name__ == "__main__":
    main()
