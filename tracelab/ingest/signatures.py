"""What a file that no parser claims most likely is, so that it can be named instead of being passed over."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

__all__ = ["describe"]

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"SQLite format 3\0", "SQLite database (Nsight Systems exports are)"),
    (b"PAR1", "Parquet file"),
    (b"ARROW1", "Arrow file"),
    (b"PK\x03\x04", "zip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed file: decompress it first"),
    (b"\xfd7zXZ\0", "xz-compressed file: decompress it first"),
    (b"BZh", "bzip2-compressed file: decompress it first"),
    (b"\x89PNG", "image"),
    (b"\x80\x02", "Python pickle"),
    (b"\x80\x03", "Python pickle"),
    (b"\x80\x04", "Python pickle"),
    (b"\x80\x05", "Python pickle"),
    (b"\x7fELF", "program"),
)
_CONTENT: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb'"tracelab\.findings/'), "result document of tracelab"),
    (re.compile(rb"^# (HELP|TYPE) ", re.MULTILINE), "Prometheus metrics"),
    (re.compile(rb'"resultType"\s*:\s*"(matrix|vector)"'), "Prometheus query result"),
    (re.compile(rb"traceEvents"), "trace of another producer"),
    (re.compile(rb"^\s*<(!DOCTYPE )?html", re.IGNORECASE), "HTML page"),
    (re.compile(rb"^\s*<\?xml"), "XML file"),
    (re.compile(rb"^\s*[{\[]"), "JSON of another kind"),
)
_SUFFIXES = {
    ".nsys-rep": "Nsight Systems report, not exported",
    ".qdrep": "Nsight Systems report, not exported",
    ".tar": "tar archive: unpack it first",
    ".tgz": "tar archive: unpack it first",
    ".csv": "CSV table",
    ".md": "Markdown text",
    ".py": "Python source",
    ".yaml": "YAML file",
    ".yml": "YAML file",
    ".toml": "TOML file",
}


def describe(path: PurePosixPath, head: bytes) -> str:
    """A short name for what the file looks like, from its path and (decompressed) head."""
    if "infiniband" in path.parts:
        return "InfiniBand or RoCE counters (sysfs)"
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    if head[257:262] == b"ustar":
        return "tar archive: unpack it first"
    if path.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[path.suffix.lower()]
    for pattern, what in _CONTENT:
        if pattern.search(head):
            return what
    return "binary file of an unknown kind" if b"\0" in head else "text of an unknown kind"
