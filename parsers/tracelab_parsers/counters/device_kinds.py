"""What kind of device a name is, where nothing but the name tells."""

from __future__ import annotations

import re

from tracelab_parsers.counters.writing import DeviceKind

__all__ = ["device_kind_of"]

_RDMA = re.compile(r"(?:mlx[45]_|bnxt_re|irdma|i40iw|roce|rdmap|ibp\d|hfi1_|efa_|qedr|hns_|erdma_|cxgb|ionic_)\S*", re.IGNORECASE)
_NETDEV = re.compile(r"(?:eth\d|en[opsxP]\w|ib\d|ib[os]\w|bond\d|lo$|veth|hsn\d|rdma\d)\S*")
_SWITCH_PORT = re.compile(
    r"(?:Ethernet|Eth|Eth-Trunk)\d\S*|(?:et|xe|ge|mge|fte)-\d\S*|(?:swp|etp|sw)\d\S*|\w*GigE\d\S*|\w*GigabitEthernet\d\S*|\d+GE\d\S*|ethernet-\d\S*|"
    r"(?:Hu|Te|Fo|Twe|FH)\d+/\S*",
)


def device_kind_of(name: str) -> DeviceKind:
    """rdma, netdev, switch-port, or other."""
    if _RDMA.fullmatch(name):
        return "rdma"
    if _SWITCH_PORT.fullmatch(name):
        return "switch-port"
    return "netdev" if _NETDEV.fullmatch(name) else "other"
