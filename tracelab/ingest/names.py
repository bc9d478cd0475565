"""What a file's name says of its process: rank, host, pid. Only asked where the content is silent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

__all__ = ["NameHints", "name_hints"]

# "rank3", "rank-3", "rank_03", "global_rank=3"; not "frank3", nor "local_rank3" (a local rank is no rank)
_RANK = re.compile(r"(?:^|[^a-z])(?<!local_)(?<!local-)(?<!local)rank[-_=. ]{0,2}(\d{1,7})(?!\d)", re.IGNORECASE)
# "worker3…" as torch's trace handler is told to call its files; "myjob-worker-3" is the name of a host
_NUMBERED = re.compile(r"^worker[-_]?(\d{1,7})(?=[._-]|$)", re.IGNORECASE)
# torch's tensorboard_trace_handler: <host>_<pid>.<time>.pt.trace.json
_WORKER = re.compile(r"^(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*?)_(?P<pid>\d+)\.\d+\.pt\.trace\.json", re.ASCII)


@dataclass(frozen=True)
class NameHints:
    """What a relative path says; None where it says nothing. `folder` is the innermost folder."""

    rank: int | None
    host: str | None
    pid: int | None
    folder: str


def name_hints(name: str) -> NameHints:
    """Reads the hints off a relative path: the file name first, then its folders from the inside out."""
    path = PurePosixPath(name)
    rank = None
    worker = _WORKER.match(path.name)
    host, pid = (worker["host"], int(worker["pid"])) if worker else (None, None)
    for part in reversed(path.parts):
        found = _RANK.findall(part)
        if not found and not (host and _NUMBERED.fullmatch(host)):  # "worker-3_4242.1780…" is what host worker-3 writes
            found = _NUMBERED.findall(part)
        if found:
            rank = int(found[-1])
            break
    return NameHints(rank, host, pid, path.parent.name)
