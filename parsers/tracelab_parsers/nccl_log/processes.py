"""The processes that a log speaks for, what is known of them, and the communicators that their threads work on."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracelab.plugins import Part
from tracelab_parsers.nccl_log.notices import Notices

__all__ = ["Communicator", "Opening", "Process", "Processes", "Thread"]

MAX_PROCESSES = 30_000
MAX_COMMUNICATORS = 4_096
"""Of one process."""

_START_LINES = (2, 18, 3)
"""The version from which on the beginning of an initialisation is logged too."""


@dataclass(slots=True, eq=False)
class Communicator:
    """A communicator of one process. The fields are the columns of the table `communicators`."""

    number: int
    line: int
    pointer: str | None = None
    state: str = "seen"
    comm_id: str | None = None
    comm_rank: int | None = None
    size: int | None = None
    cuda_device: int | None = None
    nvml_device: int | None = None
    bus_id: str | None = None
    function: str | None = None
    parent: int | None = None
    parent_pointer: str | None = None
    split: int | None = None
    color: int | None = None
    split_key: int | None = None
    nodes: int | None = None
    local_ranks: int | None = None
    local_rank: int | None = None
    channels: int | None = None
    p2p_channels: int | None = None
    p2p_channels_per_peer: int | None = None
    nvls_channels: int | None = None
    collnet_channels: int | None = None
    init_s: float | None = None


@dataclass(slots=True, eq=False)
class Opening:
    """An initialisation whose communicator is not named yet: versions before 2.18.3 log only its end."""

    process: Process
    thread: Thread
    device: int | None
    comm: Communicator | None = None
    channels: dict[str, int | None] | None = None

    def fallback(self) -> Communicator | None:
        """The communicator where the end of the initialisation never comes: only where there is no choice."""
        return self.comm or self.process.only(self.device)


@dataclass(slots=True, eq=False)
class Thread:
    """What a thread works on: `initialising` between start and completion, `last` the communicator it named last, in line `last_line`."""

    initialising: Communicator | None = None
    opening: Opening | None = None
    last: Communicator | None = None
    last_line: int = 0


@dataclass(slots=True, eq=False)
class Process:
    """One process: host and pid, or only what a launcher's label says."""

    part: int
    host: str | None = None
    pid: int | None = None
    version: tuple[int, ...] = (0,)
    version_text: str | None = None
    library: str | None = None
    comms: list[Communicator] = field(default_factory=list)
    bound: dict[int, Communicator] = field(default_factory=dict)
    threads: dict[int, Thread] = field(default_factory=dict)
    labels: dict[str, tuple[int | None, bool]] = field(default_factory=dict)
    global_rank: int | None = None
    starts: bool = False
    start_ns: int | None = None
    end_ns: int | None = None

    def saw(self, ns: int | None) -> None:
        """Widens the time in which the process spoke."""
        if ns is not None:
            self.start_ns = ns if self.start_ns is None else min(self.start_ns, ns)
            self.end_ns = ns if self.end_ns is None else max(self.end_ns, ns)

    def thread(self, tid: int | None) -> Thread:
        """What is known of a thread."""
        found = self.threads.get(tid or 0)
        if found is None:
            found = self.threads[tid or 0] = Thread()
        return found

    def only(self, device: int | None) -> Communicator | None:
        """The one communicator that lives on the device, None where there are several or none."""
        alive = [c for c in self.comms if c.state in {"started", "complete", "seen"}] or self.comms
        near = [c for c in alive if device is None or c.cuda_device is None or c.cuda_device == device]
        return near[0] if len(near) == 1 else None

    def world(self) -> Communicator | None:
        """The largest communicator, the first of several, whose initialisation states the rank."""
        named = [c for c in self.comms if c.comm_rank is not None and c.size is not None]
        return max(named, key=lambda c: (c.size or 0, -c.number)) if named else None


class Processes:
    """All processes of a file. `anonymous` lines are those that no prefix and no label gives to a process."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._by_id: dict[tuple[str, int], Process] = {}
        self._by_label: dict[str, Process | None] = {}
        self._hosts: dict[str, set[int]] = {}
        self._anonymous: Process | None = None
        self.all: list[Process] = []
        self.starts = False
        self.version: tuple[int, ...] = (0,)
        self.version_text: str | None = None
        self.library: str | None = None

    # --- who speaks

    def clean_host(self, host: str, pid: int) -> None:
        """A host that stood at the start of a line of its own."""
        self._hosts.setdefault(host, set()).add(pid)

    def true_host(self, host: str, pid: int) -> str:
        """The host without the foreign text that may be glued to its front: the longest known host that it ends with, of that process if possible."""
        if host in self._hosts:
            return host
        known = [h for h in self._hosts if h and host.endswith(h)]
        return max(known, key=lambda h: (pid in self._hosts[h], len(h)), default=host)

    def of(self, host: str, pid: int, label: str | None = None) -> Process | None:
        """The process of a prefix, that of the label's bare lines where they came first; None where there are too many."""
        found = self._by_id.get((host, pid))
        if found is None:
            found = self._by_label.get(label) if label is not None else None
            if found is not None and found.pid is None:
                found.host, found.pid = host or None, pid
            else:
                found = self._new(host or None, pid)
            if found is not None:
                self._by_id[host, pid] = found
        return found

    def _new(self, host: str | None, pid: int | None) -> Process | None:
        if len(self.all) >= MAX_PROCESSES:
            self._notices.add("too-many-processes")
            return None
        self.all.append(Process(len(self.all), host, pid))
        return self.all[-1]

    def name(self, process: Process, label: str, rank: int | None, sure: bool) -> None:
        """The launcher's label of a process. A label that several processes carry names none of them."""
        if label in process.labels or len(process.labels) > 8:
            return
        process.labels[label] = (rank, sure)
        self._by_label[label] = process if self._by_label.get(label, process) is process else None

    def labelled(self, label: str) -> Process | None:
        """The process that carries the label, where only one does."""
        return self._by_label.get(label)

    def speaker(self, label: str | None, rank: int | None, sure: bool) -> Process | None:
        """The process of a bare line whose rows need one: by its label, else the only one, else one without a name."""
        if label is not None and sure:
            found = self._by_label.get(label)
            if found is None and label not in self._by_label:
                found = self._new(None, None)
                if found is not None:
                    found.labels[label] = (rank, sure)
                    self._by_label[label] = found
            if found is not None:
                return found
        if self._anonymous is None:
            if len(self.all) == 1:
                return self.all[0]
            self._anonymous = self._new(None, None)
        return self._anonymous

    # --- what it works on

    def states_starts(self, process: Process) -> bool:
        """Whether the library logs the beginning of an initialisation."""
        version = process.version if process.version != (0,) else self.version
        return process.starts or self.starts or version >= _START_LINES

    # --- who they are

    def parts(self) -> list[Part]:
        """The processes as the source describes them; one without a name where there is none."""
        if not self.all:
            return [Part()]
        return [self._part(p) for p in self.all]

    def _part(self, process: Process) -> Part:
        world = process.world()
        rank, size, job = (world.comm_rank, world.size, world.comm_id) if world is not None else (None, None, None)
        label, sure = self._label_rank(process)
        if label is not None and (rank is None or (sure and label != rank)):
            if rank is not None:
                self._notices.add("rank-conflict")
            rank, size, job = label, None, None
        if rank is None:
            rank = process.global_rank
        if world is not None and any(_is_twin(c, world) for c in process.comms):
            self._notices.add("several-ranks-in-process")
        device = None if world is None else world.nvml_device if world.nvml_device is not None else world.cuda_device
        backend = process.library or self.library
        return Part(process.part, rank, size, process.host, process.pid, device, None, backend, job, process.start_ns, process.end_ns)

    def _label_rank(self, process: Process) -> tuple[int | None, bool]:
        """The rank that labels give, and whether their form makes it certain. Labels that may name a node count where no other process has them."""
        found = [(rank, sure) for label, (rank, sure) in process.labels.items() if rank is not None and self._by_label.get(label) is process]
        return max(found, key=lambda f: f[1], default=(None, False))


def _is_twin(comm: Communicator, world: Communicator) -> bool:
    """Whether two communicators of a process are the same one on two of its GPUs."""
    ranks = comm.comm_rank is not None and comm.comm_rank != world.comm_rank
    return ranks and comm.size == world.size and comm.comm_id == world.comm_id and comm.cuda_device != world.cuda_device
