"""Topology, tuning and benchmark tables: known lines of every version give known numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.nccl_reader_rows import bare, read, real_lines, said
from tracelab_parsers.nccl_log.graph import GraphReader
from tracelab_parsers.nccl_log.line import LogLine
from tracelab_parsers.nccl_log.nccl_tests_text import NcclTestsReader, device_line
from tracelab_parsers.nccl_log.tuning import TuningReader

Data = Callable[[str], Path]
FULL = "nccl/full/nccl_tests_subsys_all_nccl2.27.log.gz"


# --- topology


@pytest.mark.parametrize(
    "text",
    [
        "=== System : maxWidth 12.0 totalWidth 24.0 ===",
        "=== System : maxBw 240.0 totalBw 240.0 ===",
        "CPU/0 (1/1/2)",
        "CPU/0-0 (1/1/2)",
        "+ PCI[24.0] - GPU/2A000 (0)",
        "              + NVL[240.0] - GPU/0-65000",
        "+ SYS[5000.0] - CPU/1",
        "+ NET[50.0] - NET/3 (b0f20003a1420c04/1/50.000000)",
        "              + XGMI[48.0] - GPU/C1000",
        "==========================================",
        "Pattern 4, crossNic 0, nChannels 1, speed 21.000000/21.000000, type NVL/PIX, sameChannels 1",
        "Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1",
        " 0 : GPU/0 GPU/1",
        "10 : NET/1 GPU/0-17000 GPU/0-65000 NET/1",
        "ncclTopoPopulateNics : Filled mlx5_0 in topo with pciPath=/sys/devices/pci0000:4a keep=1 coll=(null)",
    ],
)
def test_lines_of_the_topology_are_known_in_every_form(text: str) -> None:
    kinds, rows = read(GraphReader(), [said(text)])
    assert kinds == ["graph"]
    assert rows.rows == []


@pytest.mark.parametrize("text", ["Channel 00/24 : 0 1", "Ring 00 : 0 -> 1 -> 0", "NET/IB : No device found.", "NET/Plugin : x", "24 coll channels", "=", ""])
def test_lines_of_others_are_left_alone(text: str) -> None:
    assert read(GraphReader(), [said(text)])[0] == [None]


def test_paths_of_all_generations_of_ids() -> None:
    lines = [
        said("GPU/2A000 :GPU/2A000 (0/5000.000000/LOC) GPU/3B000 (2/12.000000/PIX) CPU/0 (1/24.000000/PHB) NET/1 (5/12.000000/SYS) ", 1),
        said("GPU/0-17000 :GPU/0-17000 (0/5000.0/LOC) NVS/0-0 (1/240.0/NVL) NET/0-2 (4/24.0/P2C) ", 2),
        said("NET/0-1 :GPU/0-17000 (6/24.0/PXN) NET/0-9 (0/0.0/DIS) GPU/0-650", 3),
    ]
    kinds, rows = read(GraphReader(), lines)
    found = [(r["src"], r["dst"], r["hops"], r["bandwidth_gb_per_s"], r["path"]) for r in rows.of("node_paths")]
    assert kinds == ["graph"] * 3
    assert found == [
        ("GPU/2a000", "GPU/2a000", 0, 5000.0, "LOC"),
        ("GPU/2a000", "GPU/3b000", 2, 12.0, "PIX"),
        ("GPU/2a000", "CPU/0", 1, 24.0, "PHB"),
        ("GPU/2a000", "NET/1", 5, 12.0, "SYS"),
        ("GPU/0-17000", "GPU/0-17000", 0, 5000.0, "LOC"),
        ("GPU/0-17000", "NVS/0-0", 1, 240.0, "NVL"),
        ("GPU/0-17000", "NET/0-2", 4, 24.0, "P2C"),
        ("NET/0-1", "GPU/0-17000", 6, 24.0, "PXN"),
        ("NET/0-1", "NET/0-9", 0, 0.0, "DIS"),
    ]


def test_paths_of_a_real_file(test_data: Data) -> None:
    # Two processes' threads (one process, two GPUs) print the same two lines of three paths each.
    _, rows = read(GraphReader(), real_lines(test_data(FULL)))
    paths = rows.of("node_paths")
    assert len(paths) == 12
    assert Counter((r["src"], r["dst"], r["hops"], r["bandwidth_gb_per_s"], r["path"]) for r in paths) == {
        ("GPU/0-17000", "GPU/0-17000", 0, 5000.0, "LOC"): 2,
        ("GPU/0-17000", "GPU/0-65000", 1, 240.0, "NVL"): 2,
        ("GPU/0-17000", "CPU/0-0", 1, 24.0, "PHB"): 2,
        ("GPU/0-65000", "GPU/0-17000", 1, 240.0, "NVL"): 2,
        ("GPU/0-65000", "GPU/0-65000", 0, 5000.0, "LOC"): 2,
        ("GPU/0-65000", "CPU/0-0", 1, 24.0, "PHB"): 2,
    }


# --- tuning

OLD_TABLE = [
    (
        "Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Tree/Simple |    Ring/    LL |    Ring/ LL128 |    "
        "Ring/Simple | CollNet/    LL | CollNet/ LL128 | CollNet/Simple |"
    ),
    (
        " Max NThreads |            512 |            640 |            512 |            512 |            640 |          "
        "  512 |            512 |            640 |            512 |"
    ),
    (
        "    Broadcast |    0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 |     4.6/   8.0 |    12.5/   0.0 |    14.1/  "
        "20.0 |     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 |"
    ),
    (
        "    AllReduce |    6.4/   5.3 |    11.0/   0.0 |    58.4/  18.4 |     6.6/   4.0 |    20.0/   0.0 |    16.8/  "
        "10.0 |     4.4/   0.0 |     4.4/   0.0 |    10.7/   1.5 |"
    ),
]


def block(algorithms: list[str], rows: dict[str, str], protocols: int = 9) -> list[str]:
    names = "".join(f"{a:>28} {'':>21} |" for a in algorithms)
    kinds = "".join(f"{p:>15} |" for p in (["LL", "LL128", "Simple"] * 3)[:protocols])
    return [f"  Algorithm   |{names}", f"  Protocol    |{kinds}", "  Max NThreads |            512 |", *(f"{op:>13} |{cells}" for op, cells in rows.items())]


def cells(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(r["operation"], r["algorithm"], r["protocol"], r["latency_us"], r["algbw_gb_per_s"]) for r in rows]


def test_the_table_with_one_header() -> None:
    kinds, rows = read(TuningReader(), [said(t, i) for i, t in enumerate(OLD_TABLE, 1)])
    assert kinds == ["tuning"] * 4
    found = cells(rows.of("tuning"))
    assert len(found) == 18
    assert ("broadcast", "RING", "Simple".upper(), 14.1, 20.0) in found
    assert found[9:12] == [("all_reduce", "TREE", "LL", 6.4, 5.3), ("all_reduce", "TREE", "LL128", 11.0, 0.0), ("all_reduce", "TREE", "SIMPLE", 58.4, 18.4)]
    assert found[-1] == ("all_reduce", "COLLNET_DIRECT", "SIMPLE", 10.7, 1.5)


def test_blocks_whose_protocols_outnumber_the_data() -> None:
    table = block(
        ["PAT"], {"AllGather": "     0.0/   0.0 |     0.0/   0.0 |    17.6/   3.6 |", "AllReduce": "     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 |"}
    )
    _, rows = read(TuningReader(), [said(t) for t in table])
    assert cells(rows.of("tuning"))[:3] == [
        ("all_gather", "PAT", "LL", 0.0, 0.0),
        ("all_gather", "PAT", "LL128", 0.0, 0.0),
        ("all_gather", "PAT", "SIMPLE", 17.6, 3.6),
    ]
    assert len(rows.of("tuning")) == 6


def test_tables_of_two_processes_do_not_mix() -> None:
    left = block(["Tree", "Ring", "CollNetDirect"], {"Reduce": "".join(f"     1.{i}/  10.{i} |" for i in range(9))})
    right = block(["NVLS"], {"Reduce": "     7.0/  70.0 |     8.0/  80.0 |     9.0/  90.0 |"})
    mixed = [said(t, part=p) for pair in zip(left, right, strict=True) for p, t in enumerate(pair)]
    _, rows = read(TuningReader(), mixed)
    assert cells(rows.of("tuning", part=1)) == [
        ("reduce", "NVLS", "LL", 7.0, 70.0),
        ("reduce", "NVLS", "LL128", 8.0, 80.0),
        ("reduce", "NVLS", "SIMPLE", 9.0, 90.0),
    ]
    assert cells(rows.of("tuning", part=0))[3] == ("reduce", "RING", "LL", 1.3, 10.3)


def test_rows_without_their_header_give_nothing() -> None:
    table = block(["Tree"], {"Reduce": "     1.0/   1.0 |", "AllReduce": "     2.0/   2.0 |"})
    torn = [*table, *table[3:]]  # the second block lost its three header lines
    kinds, rows = read(TuningReader(), [said(t) for t in torn])
    assert kinds == ["tuning"] * 7
    assert cells(rows.of("tuning")) == [("reduce", "TREE", "LL", 1.0, 1.0), ("all_reduce", "TREE", "LL", 2.0, 2.0)]
    # A block that lost only the names of its algorithms, after one that lost a row, is not read under the old names.
    again = [*table[:4], *table[1:]]
    assert cells(read(TuningReader(), [said(t) for t in again])[1].of("tuning")) == [("reduce", "TREE", "LL", 1.0, 1.0)]
    assert read(TuningReader(), [said(table[3])])[1].rows == []


def test_tuning_of_real_files(test_data: Data) -> None:
    _, rows = read(TuningReader(), real_lines(test_data("nccl/excerpts/09_nccl-2.29.7_tuning-table-and-choices.log")))
    found = cells(rows.of("tuning"))
    assert len(found) == 5 * 7 * 3
    for expected in [
        ("all_reduce", "TREE", "LL", 16.8, 0.5),
        ("all_reduce", "TREE", "SIMPLE", 36.4, 1.9),
        ("broadcast", "RING", "LL128", 18.0, 0.0),
        ("all_gather", "COLLNET_DIRECT", "SIMPLE", 14.0, 0.0),
        ("all_reduce", "COLLNET_CHAIN", "LL128", 8.5, 0.0),
        ("reduce_scatter", "PAT", "SIMPLE", 17.6, 3.6),
        ("broadcast", "NVLS_TREE", "SIMPLE", 0.0, 0.0),
    ]:
        assert found.count(expected) == 1, expected
    _, rows = read(TuningReader(), real_lines(test_data(FULL)))
    found = cells(rows.of("tuning"))
    assert len(found) == 105
    for expected in [
        ("all_reduce", "TREE", "LL", 8.0, 37.9),
        ("all_gather", "RING", "SIMPLE", 11.8, 480.0),
        ("all_reduce", "COLLNET_CHAIN", "SIMPLE", 35.6, 0.0),
    ]:
        assert found.count(expected) == 1, expected


# --- nccl-tests

NEW_HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
OLD_HEADER = "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error"
INTERVALS = "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%"


def measured(lines: list[str]) -> list[tuple[object, ...]]:
    _, rows = read(NcclTestsReader(), [bare(t, i) for i, t in enumerate(lines, 1)])
    names = ("operation", "ranks", "bytes", "count", "dtype", "reduction", "root", "in_place", "time_ns", "errors")
    return [(*(r[n] for n in names), round(r["algbw_bytes_per_s"]), round(r["busbw_bytes_per_s"])) for r in rows.of("bandwidth_baselines")]


def test_rows_under_the_header_of_today() -> None:
    found = measured(
        [
            "# Collective test starting: reduce_scatter_perf",
            "#  Rank  0 Group  0 Pid  64904 on       mew0 device  0 [0000:17:00] NVIDIA A100 80GB PCIe",
            "#  Rank  1 Group  0 Pid  64904 on       mew0 device  1 [0000:65:00] NVIDIA A100 80GB PCIe",
            NEW_HEADER,
            "     8388608       1048576  bfloat16     sum      -1    80.98  103.59   51.79      0    83.33  100.66   50.33     12",
        ]
    )
    assert found == [
        ("reduce_scatter", 2, 8388608, 1048576, "bfloat16", "sum", None, False, 80_980, 0, 103_590_000_000, 51_790_000_000),
        ("reduce_scatter", 2, 8388608, 1048576, "bfloat16", "sum", None, True, 83_330, 12, 100_660_000_000, 50_330_000_000),
    ]


def test_rows_of_older_forms_without_root() -> None:
    found = measured(
        [
            "mpirun -n 2 ./build/all_reduce_perf -b 8",
            OLD_HEADER,
            "   134217728      33554432   float     sum   8731.1   15.37   28.82  5e-07   8457.4   15.87   29.76  N/A",
        ]
    )
    assert found == [
        ("all_reduce", None, 134217728, 33554432, "float32", "sum", None, False, 8_731_100, None, 15_370_000_000, 28_820_000_000),
        ("all_reduce", None, 134217728, 33554432, "float32", "sum", None, True, 8_457_400, None, 15_870_000_000, 29_760_000_000),
    ]


def test_rows_without_a_header_only_where_the_numbers_agree() -> None:
    row = "    65536         16384     float    none       2     2.84   23.06   23.06       0     0.10  631.37  631.37    N/A"
    assert [(r[0], r[6], r[8], r[9]) for r in measured([row])] == [("unknown", 2, 2840, 0), ("unknown", 2, 100, None)]
    assert measured([row.replace("23.06   23.06", "24.06   23.06")]) == []
    assert measured([row.rsplit(None, 1)[0]]) == []
    assert measured(["1200  30 float of text"]) == []
    assert measured(["12 13 14 15 16 17 18 19 20 21 22 23 24"]) == []


def test_columns_of_intervals_and_times() -> None:
    row = "1048576 262144 float sum -1 4.08 256.99 0.00 0 4.01 4.92 4.9 3.1 0.09 11061 0.00 0 0.08 0.11 0.1 9.0"
    found = measured([INTERVALS, row])
    assert [(r[7], r[8], r[9], r[10]) for r in found] == [(False, 4080, 0, 256_990_000_000), (True, 90, 0, 11_061_000_000_000)]
    stamped = measured([NEW_HEADER + "            timestamp", "8 2 float sum -1 10.0 0.00 0.00 0 12.5 0.00 0.00 0  2026-05-05 06:16:47"])
    assert [r[8] for r in stamped] == [10_000, 12_500]


def test_a_torn_row_is_put_together() -> None:
    found = measured(
        [
            NEW_HEADER,
            "     8388608       2097152     float     sum      -1mew0:65704:65704 [1] NCCL INFO AllReduce: opCount 0 sendbuff 0x720000000",
            "    83.33  100.66  100.66      0mew0:64904:64904 [1] NCCL INFO AllReduce: opCount 0 sendbuff 0x920000000 recvbuff 0x920000000",
            "    80.98  103.59  103.59      3",
            "    80.98  103.59  103.59      3",
        ]
    )
    assert [(r[2], r[7], r[8], r[9]) for r in found] == [(8388608, False, 83_330, 0), (8388608, True, 80_980, 3)]


def test_torn_rows_of_two_processes_do_not_mix() -> None:
    lines = [
        bare("8388608 2097152 float sum -1", 1, rank=0),
        bare("16777216 4194304 float sum -1", 2, rank=1),
        bare("83.33  100.66  100.66 0", 3, rank=0),
        bare("127.0  132.10  132.10 0", 4, rank=1),
    ]
    _, rows = read(NcclTestsReader(), lines)
    assert [(r["bytes"], r["time_ns"]) for r in rows.of("bandwidth_baselines")] == [(8388608, 83_330), (16777216, 127_000)]


def test_a_labelled_run_is_the_same_before_and_after_its_part_is_known() -> None:
    texts = ["./build/all_gather_perf", NEW_HEADER, "8388608 2097152 float none -1", "83.33  100.66  100.66 0", "80.98 103.59 103.59 0"]
    lines = [LogLine(i, t, part=None if i < 4 else 5, rank_label=2) for i, t in enumerate(texts, 1)]
    _, rows = read(NcclTestsReader(), lines)
    assert [(r["operation"], r["time_ns"]) for r in rows.of("bandwidth_baselines")] == [("all_gather", 83_330), ("all_gather", 80_980)]


def test_a_second_run_in_the_same_output_starts_anew() -> None:
    found = measured([
        "./build/all_gather_perf", "# nThread 1 nGpus 1 minBytes 8", "#   Rank  0 Pid 25 on a device 0 [0x10] A100", NEW_HEADER,
        "8 2 float none -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0", "# Avg bus bandwidth    : 0",
        "# Collective test starting: sendrecv_perf", "#   Rank  0 Pid 25 on a device 0 [0x10] A100", "#   Rank  1 Pid 26 on a device 1 [0x20] A100", NEW_HEADER,
        "8 2 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 N/A",
    ])  # fmt: skip
    assert [(r[0], r[1]) for r in found] == [("all_gather", 1)] * 2 + [("send_recv", 2)] * 2


def test_the_last_line_names_the_program_where_the_first_was_lost() -> None:
    rows = ["8 2 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0", "16 4 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0"]
    footer = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 0", "#", "# Collective test concluded: alltoall_perf"]
    assert {r[0] for r in measured([NEW_HEADER, *rows, *footer])} == {"all_to_all"}
    assert [r[0] for r in measured([NEW_HEADER, *rows, *footer[:3]])] == ["unknown"] * 4
    # It speaks of its own run alone.
    two = measured([NEW_HEADER, rows[0], "# nThread 1 nGpus 1", NEW_HEADER, rows[1], *footer])
    assert [(r[0], r[2]) for r in two] == [("unknown", 8)] * 2 + [("all_to_all", 16)] * 2


def test_the_last_line_of_a_real_file_names_its_program(test_data: Data) -> None:
    _, rows = read(NcclTestsReader(), real_lines(test_data("nccl/excerpts/10_nccl-2.29.7_init_single-rank_socket_plugins.log")))
    found = rows.of("bandwidth_baselines", operation="all_reduce", ranks=1)
    assert len(found) == 24
    # From 65536 on; the smallest time in place is 0.09 µs, and 134217728 B out of place take 176.33 µs at 761.18 GB/s.
    assert min(r["bytes"] for r in found) == 65536
    assert min(r["time_ns"] for r in found) == 90
    last = next(r for r in found if r["bytes"] == 134217728 and not r["in_place"])
    assert (last["time_ns"], last["algbw_bytes_per_s"]) == (176_330, pytest.approx(761.18e9))


def test_lines_of_devices() -> None:
    new = device_line("#  Rank  1 Group  0 Pid  64904 on       mew0 device  3 [0000:65:00] NVIDIA A100 80GB PCIe")
    assert new is not None
    assert new == (1, 0, 64904, "mew0", 3, "0000:65:00")
    assert device_line("#   Rank 15 Pid     40 on nccl-tests-efa-16-worker-1 device  7 [0xa0] A100-SXM4-40GB") == (
        15,
        None,
        40,
        "nccl-tests-efa-16-worker-1",
        7,
        "0xa0",
    )
    assert device_line("# Rank of the matrix, Pid unknown") is None


def test_torn_rows_of_a_real_file(test_data: Data) -> None:
    _, rows = read(NcclTestsReader(), real_lines(test_data(FULL)))
    found = rows.of("bandwidth_baselines")
    assert len(found) == 22
    assert {(r["operation"], r["ranks"], r["dtype"], r["reduction"]) for r in found} == {("all_reduce", 2, "float32", "sum")}
    times = {(r["bytes"], r["in_place"]): r["time_ns"] for r in found}
    assert times[8388608, False] == 83_330
    assert times[8388608, True] == 80_980
    assert times[16777216, True] == 127_000
    assert times[4294967296, True] == 20_054_000
    assert times[8589934592, True] == 39_657_000
    # The file states the mean of all bus bandwidths itself.
    assert sum(r["busbw_bytes_per_s"] for r in found) / 22 == pytest.approx(178.078e9, rel=1e-4)


def test_rows_of_an_old_real_file(test_data: Data) -> None:
    _, rows = read(NcclTestsReader(), real_lines(test_data("nccl/excerpts/14_nccl-2.9.9_efa_mpirun-tag_16gpu_connect_table.log")))
    found = rows.of("bandwidth_baselines")
    assert len(found) == 60
    assert sum(r["busbw_bytes_per_s"] for r in found) / 60 == pytest.approx(11.2432e9, rel=1e-3)
    by_key = {(r["bytes"], r["in_place"]): r for r in found}
    assert by_key[4294967296, False]["time_ns"] == 183_834_000
    assert by_key[4294967296, True]["algbw_bytes_per_s"] == pytest.approx(23.31e9)
    assert by_key[8, False]["time_ns"] == 179_100
    assert by_key[134217728, True]["busbw_bytes_per_s"] == pytest.approx(29.76e9)
    assert by_key[8, True]["errors"] is None
