"""The result tables of the analysis of traffic."""

from __future__ import annotations

from tracelab.tables import Column, TableSpec

__all__ = ["GROUPS_TRAFFIC", "HOSTS_TRAFFIC", "NICS_TRAFFIC", "OUTPUTS", "PAIRS", "PATTERNS", "PLACES", "TIME"]

_BYTES = Column("bytes", "int64", "payload", "B", nullable=False)
_EXPECTED = Column("expected_bytes", "int64", "what the same operations would put there over rings in rank order, host by host", "B", nullable=False)
_SHARE = Column("share", "float64", "of all bytes", nullable=False)

PAIRS = TableSpec(
    "traffic_pairs",
    "Bytes per directed pair of GPUs, in the order of hosts and GPUs; of very many, neighbours share a row",
    (
        Column("src_position", "int32", "place of the sender in `traffic_places`", nullable=False, key=True),
        Column("dst_position", "int32", "place of the receiver", nullable=False, key=True),
        Column("src_rank", "int32", "sender; the first of those that share the row", nullable=False),
        Column("dst_rank", "int32", "receiver; the first of those that share the row", nullable=False),
        Column("ranks", "int32", "neighbouring ranks on either side that share the row; 1 in general", nullable=False),
        _BYTES,
        _EXPECTED,
        _SHARE,
        Column("crosses_hosts", "bool", "sender and receiver are on different hosts; null where a host is unknown"),
        Column("transport", "string", "transport of most of the bytes"),
        Column("nic", "string", "network device of most of the bytes"),
        Column("rung", "string", "what most of the bytes rest on, see the table `traffic`", nullable=False),
    ),
    ("src_position", "dst_position"),
)
PLACES = TableSpec(
    "traffic_places",
    "The ranks in the order of hosts and GPUs, with what each sends and receives",
    (
        Column("position", "int32", "place in the pictures", nullable=False, key=True),
        Column("rank", "int32", "global rank", nullable=False),
        Column("host", "string", "host; null where unknown"),
        Column("local", "int32", "number of the rank on its host", nullable=False),
        Column("sent_bytes", "int64", "payload sent", "B", nullable=False),
        Column("received_bytes", "int64", "payload received", "B", nullable=False),
    ),
    ("position",),
)
HOSTS_TRAFFIC = TableSpec(
    "traffic_hosts",
    "Bytes per directed pair of hosts",
    (
        Column("src_host", "string", "host of the sender", nullable=False, key=True),
        Column("dst_host", "string", "host of the receiver", nullable=False, key=True),
        _BYTES,
        _SHARE,
        Column("pairs", "int32", "pairs of ranks that send", nullable=False),
    ),
    ("src_host", "dst_host"),
)
NICS_TRAFFIC = TableSpec(
    "traffic_nics",
    "Bytes that leave through each network device, where a log names it",
    (
        Column("host", "string", "host whose device it is: of the sender, or of the rank that sends for it", nullable=False, key=True),
        Column("nic", "string", "network device", nullable=False, key=True),
        _BYTES,
        Column("share", "float64", "of the bytes that leave this host through named devices", nullable=False),
        Column("ranks", "int32", "ranks that send through it", nullable=False),
    ),
    ("host", "nic"),
)
GROUPS_TRAFFIC = TableSpec(
    "traffic_groups",
    "Bytes per group, operation and algorithm, and how many of them must cross hosts",
    (
        Column("group", "string", "name of the group", nullable=False),
        Column("group_id", "int32", "group"),
        Column("operation", "string", "operation", nullable=False),
        Column("algorithm", "string", "algorithm that the bytes were spread by", nullable=False),
        Column("operations", "int64", "operations of the job", nullable=False),
        _BYTES,
        Column("cross_host_bytes", "int64", "of it, between hosts; null where hosts are unknown", "B"),
        Column("least_cross_host_bytes", "int64", "least that any algorithm must send between hosts; null where hosts are unknown", "B"),
        Column("excess", "float64", "cross_host_bytes / least_cross_host_bytes"),
    ),
)
PATTERNS = TableSpec(
    "traffic_patterns",
    "The shape of the traffic, of all ranks and of the groups with the most bytes",
    (
        Column("scope", "string", "all ranks, or the group", nullable=False),
        Column("group_id", "int32", "group; null for all ranks"),
        Column("pattern", "string", "ring, hierarchical, all-to-all, pipeline neighbours, hub, tree, pairs or mixed", nullable=False),
        Column("evidence", "string", "the numbers that it is named by", nullable=False),
        Column("ranks", "int32", "ranks that send or receive", nullable=False),
        Column("pairs", "int64", "directed pairs with bytes", nullable=False),
        Column("gini", "float64", "Gini coefficient of the bytes that pass each rank: 0 where all have as many, 1 where one has all", nullable=False),
        Column("top_tenth", "float64", "share of the bytes that pass the busiest tenth of the ranks", nullable=False),
    ),
)
TIME = TableSpec(
    "traffic_steps_total",
    "Bytes per step",
    (
        Column("step", "int32", "step", nullable=False, key=True),
        Column("operations", "int64", "operations of the job", nullable=False),
        _BYTES,
        Column("cross_host_bytes", "int64", "of it, between hosts; null where hosts are unknown", "B"),
    ),
    ("step",),
)
OUTPUTS = (PAIRS, PLACES, HOSTS_TRAFFIC, NICS_TRAFFIC, GROUPS_TRAFFIC, PATTERNS, TIME)
