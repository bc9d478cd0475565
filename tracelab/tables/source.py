"""Where rows come from: the files, the ranks that they speak for, and what could not be read."""

from __future__ import annotations

from tracelab.tables.schema import Column, TableSpec

__all__ = ["NOTICES", "RANKS", "SOURCES"]

SOURCES = TableSpec(
    "sources",
    "One row per file that a parser read and process that the file speaks for.",
    (
        Column("source_id", "int32", "number of the file, in the order of their paths", nullable=False, key=True),
        Column("part", "int16", "number of the process inside the file; 0 where a file holds one", nullable=False, key=True),
        Column("path", "string", "path of the file, relative to the analysed directory", nullable=False),
        Column("format", "string", "name of the parser that read it", nullable=False),
        Column("size_bytes", "int64", "size on disk", "B", nullable=False),
        Column("content_key", "string", "hash of the file's bytes", nullable=False),
        Column("job", "int32", "number of the job that the file belongs to; 0 is the one analysed", nullable=False),
        Column("rank", "int32", "rank of the process in its job; negative where no source states one"),
        Column("rank_origin", "string", "what the rank was taken from: content, name, manifest, log or capture (of the same process), or unknown"),
        Column("world_size", "int32", "ranks in the job, as the file states it"),
        Column("host", "string", "host name"),
        Column(
            "host_origin",
            "string",
            "what the host was taken from: as `rank_origin`, or devices (ranks whose rank minus GPU index agrees)",
        ),
        Column("window", "int32", "number of the capture window among those of this rank, by time"),
        Column("start_ns", "int64", "earliest event, in the source's own clock", "ns"),
        Column("end_ns", "int64", "latest end of an event, in the source's own clock", "ns"),
        Column("events", "int64", "complete events read", nullable=False),
        Column("truncated", "bool", "the file ends before its format says it should", nullable=False),
        Column("role", "string", "analysed, log (of the analysed job, beside its captures), duplicate, other-job or no-events", nullable=False),
    ),
    ("source_id", "part"),
)

RANKS = TableSpec(
    "ranks",
    "One row per rank of the analysed job that at least one source speaks for.",
    (
        Column("rank", "int32", "global rank; negative where no source states one", nullable=False, key=True),
        Column("host", "string", "host name, or a name made up for a group of ranks on one clock", nullable=False),
        Column("device", "int32", "index of the rank's GPU on its host"),
        Column("gpu", "string", "model of the GPU"),
        Column("pid", "int64", "process id"),
        Column("sources", "string", "paths of its files, joined by a line break", nullable=False),
        Column("windows", "int32", "capture windows", nullable=False),
        Column("start_ns", "int64", "earliest event, aligned clock", "ns"),
        Column("end_ns", "int64", "latest end of an event, aligned clock", "ns"),
        Column("orphan_gpu_events", "int64", "GPU events whose launch lies outside the capture", nullable=False),
        Column("truncated", "bool", "one of its files is cut short", nullable=False),
        Column("notices", "int64", "notices about its files", nullable=False),
    ),
    ("rank",),
)

NOTICES = TableSpec(
    "notices",
    "One row per kind of thing that could not be read or trusted, and file.",
    (
        Column("path", "string", "path of the file, relative to the analysed directory; empty for the directory itself", nullable=False, key=True),
        Column("code", "string", "short name of the kind of notice", nullable=False, key=True),
        Column("severity", "string", "error (a file or rank is lost), warning (data are lost or doubtful) or info", nullable=False),
        Column("offset_bytes", "int64", "where it was seen first, in the uncompressed file", "B"),
        Column("count", "int64", "how often", nullable=False),
        Column("text", "string", "what was found and what was expected", nullable=False),
        Column("hint", "string", "what to do about it", nullable=False),
    ),
)
