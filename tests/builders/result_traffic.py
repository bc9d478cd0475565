"""The traffic of a made-up job: each all_reduce runs over two rings, one in rank order, one that leaves each host from its second GPU."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.builders.result_job import ResultJob
from tests.builders.result_sections import table
from tracelab.results import DataTable, Section, Traffic

__all__ = ["traffic_of", "traffic_section"]

_SIZE = 134_217_728
_PER_STEP = 89


def _ring(order: list[int]) -> list[tuple[int, int]]:
    return list(pairwise([*order, order[0]])) if len(order) > 1 else []


def _sent(job: ResultJob) -> tuple[Counter[tuple[int, int]], Counter[tuple[int, int]]]:
    """Bytes per pair, and what they would be over the ring in rank order alone: of each operation 2 (n - 1) / n of its size."""
    plain = list(range(job.ranks))
    hosts = [[r for r in plain if job.host(r) == h] for h in job.hosts]
    turned = [r for host in hosts for r in (*host[1:], host[0])]
    half = _PER_STEP * job.steps * (job.ranks - 1) * _SIZE // job.ranks
    sent: Counter[tuple[int, int]] = Counter()
    expected: Counter[tuple[int, int]] = Counter()
    for order in (plain, turned):
        sent.update(dict.fromkeys(_ring(order), half))
        expected.update(dict.fromkeys(_ring(plain), half))
    return sent, expected


def traffic_of(job: ResultJob) -> Traffic:
    """Bytes per pair, as the document has them."""
    return Traffic([(src, dst, sent) for (src, dst), sent in sorted(_sent(job)[0].items())])


def _nic(job: ResultJob, src: int, dst: int) -> str | None:
    return f"mlx5_{src % job.per_host % 2}" if job.host(src) != job.host(dst) else None


def _by_host(job: ResultJob, sent: Counter[tuple[int, int]]) -> DataTable:
    amounts: Counter[tuple[str, str]] = Counter()
    links: Counter[tuple[str, str]] = Counter()
    for (a, b), amount in sorted(sent.items()):
        amounts[job.host(a), job.host(b)] += amount
        links[job.host(a), job.host(b)] += 1
    return table(
        "traffic_hosts",
        "Bytes per directed pair of hosts.",
        len(amounts),
        ("src_host", "", "host of the sender", [a for a, _ in amounts]),
        ("dst_host", "", "host of the receiver", [b for _, b in amounts]),
        ("bytes", "B", "payload", list(amounts.values())),
        ("share", "", "of all bytes", [v / sent.total() for v in amounts.values()]),
        ("pairs", "", "pairs of ranks that send", [links[k] for k in amounts]),
    )


def _by_device(job: ResultJob, sent: Counter[tuple[int, int]]) -> DataTable:
    amounts: Counter[tuple[str, str]] = Counter()
    for (a, b), amount in sorted(sent.items()):
        if (nic := _nic(job, a, b)) is not None:
            amounts[job.host(a), nic] += amount
    return table(
        "traffic_nics",
        "Bytes that leave through each network device.",
        len(amounts),
        ("host", "", "host", [h for h, _ in amounts]),
        ("nic", "", "network device", [n for _, n in amounts]),
        ("bytes", "B", "payload", list(amounts.values())),
    )


def traffic_section(job: ResultJob) -> Section:
    """The section of the analysis. No log states the rings of the last host."""
    sent, expected = _sent(job)
    keys, total = sorted(sent | expected), sent.total() or 1
    crosses = [job.host(a) != job.host(b) for a, b in keys]
    last = job.hosts[-1]
    pairs = table(
        "traffic_pairs",
        "Bytes per directed pair of GPUs, in the order of hosts and GPUs.",
        len(keys),
        ("src_position", "", "place of the sender", [a for a, _ in keys]),
        ("dst_position", "", "place of the receiver", [b for _, b in keys]),
        ("src_rank", "", "sender", [a for a, _ in keys]),
        ("dst_rank", "", "receiver", [b for _, b in keys]),
        ("ranks", "", "neighbouring ranks that share the row", [1] * len(keys)),
        ("bytes", "B", "payload", [sent[k] for k in keys]),
        ("expected_bytes", "B", "the same over rings in rank order", [expected[k] for k in keys]),
        ("share", "", "of all bytes", [sent[k] / total for k in keys]),
        ("crosses_hosts", "", "sender and receiver are on different hosts", crosses),
        ("transport", "", "transport of most of the bytes", ["NET/IB" if c else "P2P/IPC" for c in crosses]),
        ("nic", "", "network device of most of the bytes", [_nic(job, *k) for k in keys]),
        ("rung", "", "what most of the bytes rest on", ["assumed" if job.host(a) == last and len(job.hosts) > 1 else "stated" for a, _ in keys]),
    )
    ranks = range(job.ranks)
    leaves: Counter[int] = Counter()
    for (a, _), amount in sent.items():
        leaves[a] += amount
    places = table(
        "traffic_places",
        "The ranks in the order of hosts and GPUs.",
        job.ranks,
        ("position", "", "place in the pictures", ranks),
        ("rank", "", "global rank", ranks),
        ("host", "", "host", [job.host(r) for r in ranks]),
        ("local", "", "number of the rank on its host", [r % job.per_host for r in ranks]),
        ("sent_bytes", "B", "payload sent", [leaves[r] for r in ranks]),
    )
    hosts, devices = _by_host(job, sent), _by_device(job, sent)
    per_step = table(
        "traffic_steps_total",
        "Bytes per step.",
        job.steps,
        ("step", "", "step", range(job.steps)),
        ("operations", "", "operations of the job", [_PER_STEP] * job.steps),
        ("bytes", "B", "payload", [sent.total() // job.steps] * job.steps),
    )
    between = sum(sent[k] for k, crossing in zip(keys, crosses, strict=True) if crossing)
    answer = f"{sent.total() / 1e12:.2f} TB between {len(sent)} directed pairs of ranks; {100 * between / total:.1f} % of it between hosts; pattern: ring."
    return Section("traffic", "Traffic between GPUs", "Who sends how much to whom, and over what?", answer, [pairs, places, hosts, devices, per_step])
