"""Versions, environment variables and properties that a process states of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracelab.tables.logs import LOG_SETTINGS
from tracelab_parsers.nccl_log.fields import Bounded, bounded
from tracelab_parsers.nccl_log.line import LogLine, Rows

__all__ = ["SettingsReader", "allowed", "clean_value"]

_VALUE = 200
_NAME = re.compile(r"(?:NCCL|RCCL)_[A-Z0-9_]{1,60}")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE")
_USERINFO = re.compile(r"://[^/\s]{0,200}@")
_SECRET_WORD = re.compile(
    r"(?i:token|secret|passw(?:or)?d|api_?key|bearer|credential)s?\s*[=: ]|gh[opsu]_[0-9A-Za-z]{20}|hf_[0-9A-Za-z]{20}|\bAKIA[0-9A-Z]{12}|eyJ[0-9A-Za-z_-]{20}"
)

# A number closed by what must follow it: of a line cut in the middle nothing is read.
_VERSION = re.compile(r"\b([NR])CCL version ?:? ?([0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,3}){0,2})(?=[+-])(?:\+(cuda|hip|rocm)([0-9]{1,3}\.[0-9]{1,3})(?![0-9]))?")
_PLATFORM = re.compile(r"\s*(HIP|ROCm) version\s{0,4}: ?([0-9]{1,3}(?:\.[0-9]{1,6}){1,3})(?=-)")
_ENVIRONMENT = re.compile(r"((?:NCCL|RCCL)_[A-Z0-9_]{1,60}) set (?:by environment )?to (.{0,2000})", re.DOTALL)
_DRIVER = re.compile(r"cudaDriverVersion ([0-9]{5})(?![0-9])")
_RUNTIME = re.compile(r"(?:cudaRuntimeVersion|CUDA [Rr]untime [Vv]ersion:?) ([0-9]{5}(?![0-9])|[0-9]{1,2}\.[0-9]{1,2}(?![0-9]))")
_AFFINITY = re.compile(r"Setting affinity for GPU ([0-9]{1,5}) to ([0-9A-Fa-fx,-]{1,2000})\s*$")
_AFFINITY_NEW = re.compile(r"(?:ncclTopoGetCpuAffinity: )?Affinity for GPU ([0-9]{1,5}) is ([0-9a-z,-]{1,2000}?)(?:, ignoring)?\.")
_DMA_BUF = re.compile(r"DMA-BUF is available on GPU device ([0-9]{1,5})\s*$")
_LAUNCH = re.compile(r"Launch mode ([A-Za-z/]{1,40})\s*$")
_CONFIG = re.compile(r"Comm config ([A-Za-z0-9]{1,40}) set to (\S{1,100})")
_CONFIG_NAMES = frozenset(
    {
        "blocking",
        "cgaclustersize",
        "minctas",
        "maxctas",
        "netname",
        "splitshare",
        "shrinkshare",
        "trafficclass",
        "commname",
        "collnetenable",
        "ctapolicy",
        "nvlsctas",
        "nchannelspernetpeer",
        "nvlinkcentricsched",
        "graphusagemode",
        "numrmactx",
        "maxp2ppeers",
        "graphstreamordering",
    }
)


def allowed(name: str) -> bool:
    """Whether a variable may be kept: one of the library's own, whose name does not speak of secrets."""
    return _NAME.fullmatch(name) is not None and not _SECRET_NAME.search(name)


def clean_value(value: str) -> str | None:
    """The value, bounded; None where it looks like a secret, whatever its name."""
    text = bounded(value, _VALUE)
    return None if _USERINFO.search(text) or _SECRET_WORD.search(text) else text


class SettingsReader:
    """Knows what a process says of its versions, its environment and its machine; each statement is kept once a process."""

    def __init__(self) -> None:
        self._said: Bounded[tuple[int | None, str, str], None] = Bounded(50_000)

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """`version`, `setting` or `affinity`, else None."""
        if line.level == "WARN":
            return None
        text = line.text
        if " version" in text or "version:" in text or text.startswith("cudaDriverVersion") or "untime" in text:
            kind = self._version(text, line, rows)
            if kind is not None:
                return kind
        if not line.level:
            return None
        if " set " in text:
            return self._set(text, line, rows)
        if "ffinity" in text:
            return self._affinity(text, line, rows)
        return self._property(text, line, rows)

    def finish(self, rows: Rows) -> None:
        """Every statement stands for itself."""

    def _version(self, text: str, line: LogLine, rows: Rows) -> str | None:
        known = False
        for name, value in _versions(text):
            known = True
            self._add(name, value, "stated", line, rows)
        return "version" if known or text.startswith(("NCCL version", "RCCL version", "NCCL git version", "RCCL git version", "cudaDriverVersion")) else None

    def _set(self, text: str, line: LogLine, rows: Rows) -> str | None:
        if found := _ENVIRONMENT.search(text):
            value = found[2].strip()
            # Most values are followed by a full stop; none ends with one.
            value = value.removesuffix(".") or value
            if allowed(found[1]):
                self._add(found[1], value, "environment", line, rows)
            return "setting"
        if found := _CONFIG.match(text):
            if found[1].lower() in _CONFIG_NAMES:
                self._add(f"config_{found[1]}", found[2], "stated", line, rows)
            return "setting"
        return None

    def _affinity(self, text: str, line: LogLine, rows: Rows) -> str | None:
        found = _AFFINITY.match(text) or _AFFINITY_NEW.match(text)
        if found is not None:
            self._add("affinity", f"GPU {found[1]}: {found[2]}", "stated", line, rows)
        return "affinity" if found or text.startswith(("Setting affinity", "ncclTopoGetCpuAffinity", "Affinity for")) else None

    def _property(self, text: str, line: LogLine, rows: Rows) -> str | None:
        if text.startswith("DMA-BUF"):
            if found := _DMA_BUF.match(text):
                self._add("dma_buf", f"available on GPU {found[1]}", "stated", line, rows)
            return "setting"
        if text.startswith("Dmabuf feature disabled"):
            self._add("dma_buf", "disabled", "stated", line, rows)
            return "setting"
        if text.startswith("Launch mode"):
            if found := _LAUNCH.match(text):
                self._add("launch_mode", found[1], "stated", line, rows)
            return "setting"
        known = " config file" in text or "configuration file" in text or text.startswith("Librccl path")
        return "setting" if known else None

    def _add(self, name: str, value: str, origin: str, line: LogLine, rows: Rows) -> None:
        kept = clean_value(value)
        if not kept or (line.part, name, kept) in self._said:
            return
        self._said[line.part, name, kept] = None
        rows.add(LOG_SETTINGS, line, name=name, value=kept, origin=origin)


def _versions(text: str) -> Iterator[tuple[str, str]]:
    if found := _VERSION.search(text):
        yield "version", found[2]
        yield "library", "rccl" if found[1] == "R" or found[3] in {"hip", "rocm"} else "nccl"
        if found[4]:
            yield {"cuda": "cuda_runtime", "hip": "hip", "rocm": "rocm"}[found[3]], found[4]
    elif found := _PLATFORM.match(text):
        yield found[1].lower(), found[2]
    elif found := _DRIVER.match(text):
        yield "cuda_driver", found[1]
    elif found := _RUNTIME.search(text):
        yield "cuda_runtime", found[1]
