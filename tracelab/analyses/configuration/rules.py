"""What ranks must share, why, and how bad it is where they do not."""

from __future__ import annotations

from dataclasses import dataclass

from tracelab.results import Confidence, FindingSeverity

__all__ = ["ABSENCE_TELLS", "AGREE", "Rule"]


@dataclass(frozen=True)
class Rule:
    """A property that ranks should share, why, and how bad it is where they do not."""

    title: str
    reason: str
    severity: FindingSeverity
    confidence: Confidence = "possible"


_SHAPE = "all ranks of a communicator must choose alike, else they hang or transfer wrong sizes"
_SPEED = "the slowest way holds up all ranks"
_FABRIC = "traffic of these ranks is treated otherwise in the fabric"

AGREE: dict[str, Rule] = {
    "version": Rule("version of the communication library", "different versions choose and transfer differently", "major", "proven"),
    "cuda_driver": Rule("CUDA driver version", "drivers differ in speed and in what they let the library use", "minor"),
    "net_plugin": Rule("network plugin", "both ends of a connection must use the same network", "minor", "likely"),
    "network": Rule("network", "both ends of a connection must use the same network", "major", "likely"),
    "cuda_runtime": Rule("CUDA version that the library was built for", "the libraries are different builds", "minor"),
    **{
        name: Rule(name, _SHAPE, "major", "likely")
        for name in (
            "NCCL_ALGO",
            "NCCL_BUFFSIZE",
            "NCCL_COLLNET_ENABLE",
            "NCCL_GRAPH_FILE",
            "NCCL_LL128_BUFFSIZE",
            "NCCL_LL_BUFFSIZE",
            "NCCL_MAX_CTAS",
            "NCCL_MAX_NCHANNELS",
            "NCCL_MIN_CTAS",
            "NCCL_MIN_NCHANNELS",
            "NCCL_NCHANNELS_PER_NET_PEER",
            "NCCL_NET",
            "NCCL_NET_PLUGIN",
            "NCCL_NTHREADS",
            "NCCL_NVLS_ENABLE",
            "NCCL_P2P_NET_CHUNKSIZE",
            "NCCL_P2P_NVL_CHUNKSIZE",
            "NCCL_P2P_PCI_CHUNKSIZE",
            "NCCL_PROTO",
            "NCCL_PXN_DISABLE",
        )
    },
    **{
        name: Rule(name, _SPEED, "minor")
        for name in (
            "CUDA_LAUNCH_BLOCKING",
            "NCCL_CROSS_NIC",
            "NCCL_CUMEM_ENABLE",
            "NCCL_IB_DISABLE",
            "NCCL_IB_QPS_PER_CONNECTION",
            "NCCL_IB_SPLIT_DATA_ON_QPS",
            "NCCL_IGNORE_CPU_AFFINITY",
            "NCCL_LAUNCH_MODE",
            "NCCL_MNNVL_ENABLE",
            "NCCL_NET_GDR_LEVEL",
            "NCCL_NET_GDR_READ",
            "NCCL_NSOCKS_PERTHREAD",
            "NCCL_P2P_DISABLE",
            "NCCL_P2P_LEVEL",
            "NCCL_SHM_DISABLE",
            "NCCL_SOCKET_NTHREADS",
            "NCCL_TOPO_FILE",
        )
    },
    **{
        name: Rule(name, _FABRIC, "minor")
        for name in ("NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_GID_INDEX", "NCCL_IB_RETRY_CNT", "NCCL_IB_SL", "NCCL_IB_TC", "NCCL_IB_TIMEOUT")
    },
}
"""What must agree. Interfaces and adapters (NCCL_SOCKET_IFNAME, NCCL_IB_HCA) may be named differently from host to host."""

ABSENCE_TELLS = frozenset(
    n for n in AGREE if n.startswith("NCCL_") and not n.startswith(("NCCL_IB_", "NCCL_SOCKET_", "NCCL_NSOCKS", "NCCL_NET_GDR", "NCCL_NCHANNELS"))
)
"""Settings that every rank reads. Others are read, and printed, only by ranks that own a connection over that network."""
