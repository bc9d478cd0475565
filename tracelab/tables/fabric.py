"""How machines are wired: interfaces, cables, GPUs beside adapters, and the links of the job that follow from them."""

from __future__ import annotations

from tracelab.tables.schema import Column, TableSpec

__all__ = ["ADAPTER_PATHS", "CABLES", "ENDPOINTS", "INTERFACES", "LINKS"]

_SOURCE = (
    Column("source_id", "int32", "file that the row comes from", nullable=False, added=True),
    Column("line", "int64", "line of the file, from 1; number of the record or element where the file has no lines", nullable=False),
)

_PATHS = "nearest first: PIX (one PCIe switch), PXB (several), PHB (host bridge), NODE (one NUMA node), SYS (across NUMA nodes)"
_TIES = "edges (a log names it), affinity (the nearest by topology), order (as many adapters as GPUs, or an even share), or manifest"

INTERFACES = TableSpec(
    "interfaces",
    "One row per network interface of a host or switch that a source describes. Sources that name one interface by different names meet in it.",
    (
        *_SOURCE,
        Column("node", "string", "machine, as the file states it; null where it does not"),
        Column("node_kind", "dict", "host or switch; null where unknown"),
        Column("node_uid", "string", "GUID or MAC of the machine (chassis), lower-case digits without separators"),
        Column("device", "string", "RDMA device: mlx5_0"),
        Column("netdev", "string", "network device of the system, or name of the switch's port: ens1f0np0, Ethernet12"),
        Column("alias", "string", "other name of it: etp4a, a description, an altname"),
        Column("port", "int32", "number of the port on the device"),
        Column("uid", "string", "GUID or MAC of the port, lower-case digits without separators"),
        Column("lid", "int32", "InfiniBand's local address"),
        Column("pci", "string", "PCI address, as 0000:0f:00.0"),
        Column("address", "string", "IP addresses, joined by a space"),
        Column("numa", "int32", "NUMA node it hangs on"),
        Column("speed_bps", "int64", "speed of the link", "bit/s"),
        Column("lanes", "int32", "lanes that the link runs with"),
        Column("mtu", "int32", "largest payload of a frame", "B"),
        Column("link_layer", "dict", "InfiniBand or Ethernet"),
        Column("up", "bool", "the link is up"),
        Column("bond", "string", "bond or port channel that it is a member of"),
        Column("cable", "string", "cable or transceiver: type, length, maker and part number as far as stated"),
        Column("origin", "dict", "what kind of statement: lldp, ibnetdiscover, ibdev2netdev, sysfs, ethtool, ip, nccl-topology, table …", nullable=False),
    ),
)

CABLES = TableSpec(
    "cables",
    "One row per connection between two machines that a source states. A is the one that the statement is about.",
    (
        *_SOURCE,
        Column("a_node", "string", "machine; null where the file does not name it"),
        Column("a_kind", "dict", "host or switch; null where unknown"),
        Column("a_uid", "string", "GUID or MAC of the machine"),
        Column("a_device", "string", "RDMA device"),
        Column("a_port", "string", "name or number of the port, as printed"),
        Column("a_port_uid", "string", "GUID or MAC of the port"),
        Column("b_node", "string", "the other machine"),
        Column("b_kind", "dict", "host or switch; null where unknown"),
        Column("b_uid", "string", "GUID or MAC of the other machine"),
        Column("b_device", "string", "RDMA device of the other machine"),
        Column("b_port", "string", "name or number of its port, as printed"),
        Column("b_port_uid", "string", "GUID or MAC of its port"),
        Column("speed_bps", "int64", "speed of the link", "bit/s"),
        Column("lanes", "int32", "lanes"),
        Column("up", "bool", "the link is up"),
        Column("cable", "string", "cable or transceiver as far as stated"),
        Column("count", "int32", "parallel cables that the row stands for, where ports are not named"),
        Column("a_tier", "int32", "tier of A: 0 host, 1 leaf, 2 spine, 3 core; null where not stated"),
        Column("b_tier", "int32", "tier of B"),
        Column("origin", "dict", "lldp, ibnetdiscover, ibdiagnet, slurm (membership alone, no ports), table, or manifest", nullable=False),
    ),
)

ADAPTER_PATHS = TableSpec(
    "adapter_paths",
    "One row per GPU and adapter of a host whose distance a source states.",
    (
        *_SOURCE,
        Column("node", "string", "host, as the file states it; null where it does not"),
        Column("gpu", "int32", "index of the GPU on its host"),
        Column("gpu_pci", "string", "PCI address of the GPU, as 0000:0f:00.0"),
        Column("device", "string", "RDMA or network device"),
        Column("device_pci", "string", "PCI address of the adapter"),
        Column("path", "dict", _PATHS, nullable=False),
        Column("origin", "dict", "nvidia-smi, nccl-topology, pci-tree, or table", nullable=False),
    ),
)

ENDPOINTS = TableSpec(
    "endpoints",
    "One row per rank and adapter that its data may leave through.",
    (
        Column("rank", "int32", "global rank", nullable=False, key=True),
        Column("host", "string", "host", nullable=False),
        Column("device", "string", "RDMA device, or the network device where there is none", nullable=False, key=True),
        Column("netdev", "string", "network device of the system"),
        Column("link", "int32", "row of `links`; null where its other end is unknown"),
        Column("share", "float64", "share of the rank's network bytes that take it", "ratio", nullable=False),
        Column("origin", "dict", _TIES, nullable=False),
    ),
    ("rank", "device"),
)

LINKS = TableSpec(
    "links",
    "One row per link of the job's network: from a host to its switch, and between switches.",
    (
        Column("link", "int32", "number of the link", nullable=False, key=True),
        Column("a_node", "string", "host, or the lower switch", nullable=False),
        Column("a_device", "string", "RDMA device of the host"),
        Column("a_port", "string", "network device of the host, or port of the lower switch"),
        Column("b_node", "string", "switch; null where unknown"),
        Column("b_port", "string", "port of the switch"),
        Column("tier", "int32", "0 host to leaf, 1 leaf to spine, 2 above", nullable=False),
        Column("rail", "int32", "number of the adapter on its host: equal ones of all hosts form a rail; null between switches"),
        Column("speed_bps", "int64", "speed of the link", "bit/s"),
        Column("speed_origin", "string", "what the speed was taken from: as `origin`, or peers (all others of its kind agree)"),
        Column("cable", "string", "cable or transceiver as far as stated"),
        Column("a_series", "bool", "the A end has counters", nullable=False),
        Column("b_series", "bool", "the B end has counters", nullable=False),
        Column("origin", "string", "statements that it rests on, joined by +", nullable=False),
    ),
    ("link",),
)
