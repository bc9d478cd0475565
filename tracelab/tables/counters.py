"""Counters of switches, adapters and GPUs: what a source states, and the names under which all sources' counters meet.

A parser states what its file says: a value exactly as printed (`raw`), the unit that it counts in (`scale` canonical units
each), and the moment where the file holds one. Which machine a file without a name speaks for, and when it was taken, may
stand in its path alone; that is found out when all files are known, in `counters`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracelab.tables.schema import Column, TableSpec

__all__ = ["CANONICAL", "COUNTERS", "COUNTER_RATES", "COUNTER_SAMPLES", "Canonical", "CounterKind"]

CounterKind = Literal["counter", "gauge", "delta", "event"]

_UNITS = (
    "byte, packet, us, tick, event, bit/s, byte/s, packet/s, percent, ratio, celsius, hertz, watt, joule, dBm, or one (a state, a count); null where unknown"
)
_STAMPED = "device (it stamped the number itself), collector (who read it did), file (a line above it), local (no zone stated); null without time"

_VALUE = (
    Column("device", "dict", "what counted, as the source names it: mlx5_0, eth0, Ethernet12, a GPU's index …; null where the file does not say"),
    Column("device_kind", "dict", "rdma, netdev, switch-port, gpu, switch or other", nullable=False),
    Column("port", "int32", "number of the port on the device; null where the device is the port"),
    Column("uid", "dict", "address that no rename changes: a GUID or MAC (lower-case digits without separators), a GPU's UUID; null where not stated"),
    Column("priority", "int16", "traffic class of priority flow control, 0 to 7"),
    Column("queue", "dict", "queue, priority group or pool as the source names it: UC3, PG3, MC10, lane 2"),
    Column("direction", "dict", "tx or rx as the named device sees it; null where the counter has none"),
    Column("counter", "dict", "canonical name, or vendor.<name as printed> where it has none", nullable=False),
    Column("raw_name", "dict", "name as the source prints it", nullable=False),
    Column("raw", "uint64", "number as printed, exact; null where it is no whole number from 0 to 2**64 - 1"),
    Column("scale", "float64", "canonical units per printed unit: 4 for InfiniBand's words", nullable=False),
    Column("value", "float64", "number in canonical units, rounded to a float; null where the source has none (N/A)"),
    Column("unit", "dict", _UNITS),
    Column("kind", "dict", "counter (only grows, until a reset), gauge (a level), delta (counts of one interval) or event (one occurrence)", nullable=False),
    Column("width", "int16", "bits of the printed counter; 0 where unknown", nullable=False),
    Column("saturates", "bool", "stays at its highest value instead of starting at 0 again", nullable=False),
    Column("flags", "dict", "what makes the number doubtful, joined by +: saturated, cleared-after-read, since-clear, hidden-below-threshold, rounded …"),
)

COUNTER_SAMPLES = TableSpec(
    "counter_samples",
    "One row per number that a counter source states.",
    (
        Column("source_id", "int32", "file that the row comes from", nullable=False, added=True),
        Column("line", "int64", "line of the file, from 1; number of the record or series where the file has no lines", nullable=False),
        Column("source_ts_ns", "int64", "moment as the file states it, in the clock of who stamped it; null where the file states none", "ns"),
        Column("time_quality", "dict", _STAMPED),
        Column("interval_ns", "int64", "of a delta: the time it counts over", "ns"),
        Column("node", "dict", "machine that the number is of, as the file states it; null where it does not"),
        Column("node_kind", "dict", "host or switch; null where unknown"),
        *_VALUE,
    ),
)

COUNTERS = TableSpec(
    "counters",
    "One row per number that counters state, with its machine and moment found out.",
    (
        Column("source_id", "int32", "file that the row comes from", nullable=False),
        Column("line", "int64", "line, record or series of the file", nullable=False),
        Column("series", "int32", "number of the series: machine, device, port, priority, queue, direction, counter, source of its clock", nullable=False),
        Column("ts_ns", "int64", "moment on the aligned clock; null where nothing states it", "ns"),
        Column("source_ts_ns", "int64", "moment in the clock of who stamped it", "ns"),
        Column("time_quality", "dict", "device, collector, file, local, or path (a folder or the name of the file); null without time"),
        Column("clock", "string", "whose clock stamped it: a machine's name, or the collector's"),
        Column("interval_ns", "int64", "of a delta: the time it counts over", "ns"),
        Column("node", "string", "machine: a host by the job's name for it, or a switch", nullable=False),
        Column("node_kind", "dict", "host or switch", nullable=False),
        Column("node_origin", "dict", "what the machine was taken from: content, path, address or manifest", nullable=False),
        *_VALUE,
    ),
    ("series", "ts_ns", "source_id", "line"),
)

COUNTER_RATES = TableSpec(
    "counter_rates",
    "One row per two neighbouring samples of a counter: what it counted between them.",
    (
        Column("series", "int32", "series of `counters`", nullable=False, key=True),
        Column("start_ns", "int64", "earlier sample, aligned clock", "ns", nullable=False, key=True),
        Column("end_ns", "int64", "later sample, aligned clock", "ns", nullable=False),
        Column("node", "string", "machine", nullable=False),
        Column("node_kind", "dict", "host or switch", nullable=False),
        Column("device", "dict", "what counted"),
        Column("port", "int32", "number of the port on the device"),
        Column("priority", "int16", "traffic class"),
        Column("queue", "dict", "queue"),
        Column("direction", "dict", "tx or rx as the device sees it"),
        Column("counter", "dict", "canonical name", nullable=False),
        Column("unit", "dict", "unit of `delta`"),
        Column("delta", "float64", "counted in the interval, in canonical units; exact below 2**53", nullable=False),
        Column("per_s", "float64", "delta per second", nullable=False),
        Column("at_least", "bool", "a lower bound: the counter was reset, or stood at its highest value", nullable=False),
        Column("gap", "bool", "the interval is much longer than the series' usual one: nothing is known of when inside it", nullable=False),
        Column("flags", "string", "reset, wrapped, saturated, over-line-rate …, joined by +"),
    ),
    ("series", "start_ns"),
)


@dataclass(frozen=True)
class Canonical:
    """A counter that several sources state under names of their own."""

    unit: str
    kind: CounterKind
    doc: str


CANONICAL: dict[str, Canonical] = {
    # traffic
    "bytes": Canonical("byte", "counter", "bytes on the wire"),
    "packets": Canonical("packet", "counter", "packets"),
    "rdma_bytes": Canonical("byte", "counter", "bytes of RDMA alone, as the adapter counts them"),
    "rdma_packets": Canonical("packet", "counter", "packets of RDMA alone"),
    "priority_bytes": Canonical("byte", "counter", "bytes of one priority"),
    "priority_packets": Canonical("packet", "counter", "packets of one priority"),
    "queue_bytes": Canonical("byte", "counter", "bytes that left one queue"),
    "queue_packets": Canonical("packet", "counter", "packets that left one queue"),
    # flow control
    "pfc_pause_frames": Canonical("packet", "counter", "priority flow control frames of one priority; rx: the neighbour asks this device to stop"),
    "pfc_pause_us": Canonical("us", "counter", "time paused by priority flow control"),
    "pfc_transitions": Canonical("event", "counter", "changes from sending to paused"),
    "global_pause_frames": Canonical("packet", "counter", "pause frames of the whole port"),
    "global_pause_us": Canonical("us", "counter", "time paused as a whole port"),
    "pfc_storm_events": Canonical("event", "counter", "pauses so long that a watchdog called them a storm"),
    "xmit_wait_ticks": Canonical("tick", "counter", "ticks in which data waited and no credit was there"),
    # congestion
    "ecn_marked_packets": Canonical("packet", "counter", "packets marked for congestion, where they were marked or where they arrived"),
    "cnp_sent": Canonical("packet", "counter", "congestion notifications sent by a receiver"),
    "cnp_handled": Canonical("packet", "counter", "congestion notifications that a sender acted on"),
    "cnp_ignored": Canonical("packet", "counter", "congestion notifications that a sender ignored"),
    "wred_drop_packets": Canonical("packet", "counter", "packets dropped early instead of marked"),
    # loss
    "discards": Canonical("packet", "counter", "packets dropped at the port without being broken"),
    "errors": Canonical("packet", "counter", "packets dropped because they were broken or could not be sent"),
    "queue_drop_packets": Canonical("packet", "counter", "packets dropped at one queue"),
    "pg_drop_packets": Canonical("packet", "counter", "packets dropped at a lossless buffer"),
    "rx_no_buffer": Canonical("packet", "counter", "packets dropped for want of a receive buffer: software was late"),
    # integrity
    "crc_errors": Canonical("packet", "counter", "frames with a wrong checksum"),
    "symbol_errors": Canonical("event", "counter", "symbols that the line could not decode"),
    "fec_corrected": Canonical("event", "counter", "code words or bits that error correction repaired"),
    "fec_uncorrectable": Canonical("event", "counter", "code words that error correction could not repair"),
    "pcs_errors": Canonical("event", "counter", "errors of the coding layer"),
    "rcv_errors": Canonical("packet", "counter", "packets received with an error"),
    "rcv_remote_physical_errors": Canonical("packet", "counter", "packets that another link further up had already marked bad"),
    "buffer_overrun": Canonical("event", "counter", "receive buffers that overran"),
    "local_link_integrity": Canonical("event", "counter", "times that local errors passed their threshold"),
    "bit_error_rate": Canonical("ratio", "gauge", "bits received wrong, of all"),
    # link
    "link_down_events": Canonical("event", "counter", "times that the link went down"),
    "link_transitions": Canonical("event", "counter", "changes of state: two for each time that a link goes down and comes back"),
    "link_recovery": Canonical("event", "counter", "times that the link retrained without going down"),
    "link_up": Canonical("one", "gauge", "1 where the link is up"),
    "link_speed": Canonical("bit/s", "gauge", "speed that the link runs at"),
    "link_width": Canonical("one", "gauge", "lanes that the link runs with"),
    # transport
    "out_of_sequence": Canonical("packet", "counter", "packets that came in the wrong order; with adaptive routing no fault"),
    "packet_seq_err": Canonical("event", "counter", "gaps in sequence that the peer complained of: a packet was lost"),
    "ack_timeout": Canonical("event", "counter", "acknowledgements that did not come in time"),
    "rnr_nak": Canonical("event", "counter", "receivers that had no request posted"),
    "retransmit_packets": Canonical("packet", "counter", "packets sent again"),
    "retransmit_bytes": Canonical("byte", "counter", "bytes sent again"),
    "retransmit_timeouts": Canonical("event", "counter", "times that a timer had to run out before sending again"),
    "adaptive_retransmits": Canonical("event", "counter", "retransmissions by the adaptive timer"),
    "slow_restarts": Canonical("event", "counter", "restarts at low rate after loss"),
    "duplicate_request": Canonical("packet", "counter", "requests that came twice: the sender had sent them again"),
    "cqe_error": Canonical("event", "counter", "work requests that ended with an error"),
    # buffers
    "queue_watermark_bytes": Canonical("byte", "gauge", "highest fill of a queue since it was last cleared"),
    "pg_headroom_watermark_bytes": Canonical("byte", "gauge", "highest fill of a lossless buffer's headroom"),
    "pg_shared_watermark_bytes": Canonical("byte", "gauge", "highest fill of a priority group's shared buffer"),
    "pool_watermark_bytes": Canonical("byte", "gauge", "highest fill of a buffer pool"),
    "queue_depth_bytes": Canonical("byte", "gauge", "fill of a queue"),
    # rates that a source states itself
    "bits_per_s": Canonical("bit/s", "gauge", "rate as the source averages it"),
    "bytes_per_s": Canonical("byte/s", "gauge", "rate as the source averages it"),
    "packets_per_s": Canonical("packet/s", "gauge", "rate as the source averages it"),
    "utilisation": Canonical("percent", "gauge", "share of the link's speed as the source states it"),
    # GPUs and what joins them
    "nvlink_bytes": Canonical("byte", "counter", "bytes over NVLink"),
    "nvlink_bytes_per_s": Canonical("byte/s", "gauge", "rate over NVLink"),
    "nvlink_errors": Canonical("event", "counter", "checksum, replay and recovery errors of NVLink"),
    "pcie_replays": Canonical("event", "counter", "PCIe packets sent again"),
    "pcie_bytes_per_s": Canonical("byte/s", "gauge", "rate over PCIe"),
    "xid_last": Canonical("one", "gauge", "number of the last error that the driver reported; stays until the next"),
    "sm_clock": Canonical("hertz", "gauge", "clock of the multiprocessors"),
    "memory_clock": Canonical("hertz", "gauge", "clock of the memory"),
    "gpu_temperature": Canonical("celsius", "gauge", "temperature of the GPU"),
    "memory_temperature": Canonical("celsius", "gauge", "temperature of the GPU's memory"),
    "power": Canonical("watt", "gauge", "power drawn"),
    "energy": Canonical("joule", "counter", "energy drawn"),
    "gpu_utilisation": Canonical("percent", "gauge", "time in which a kernel ran"),
    "sm_active": Canonical("ratio", "gauge", "multiprocessors with work, of all"),
    "throttle_us": Canonical("us", "counter", "time for which clocks were held down"),
    "throttle_reasons": Canonical("one", "gauge", "bits that say why clocks are held down"),
    "ecc_errors": Canonical("event", "counter", "memory errors, corrected or not"),
    "remapped_rows": Canonical("event", "counter", "memory rows taken out of use"),
    # optics
    "module_temperature": Canonical("celsius", "gauge", "temperature of the transceiver"),
    "rx_power": Canonical("dBm", "gauge", "light received"),
    "tx_power": Canonical("dBm", "gauge", "light sent"),
}
"""The canonical counters by name. A counter that is none of them keeps its own name behind `vendor.`."""
