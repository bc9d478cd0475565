"""Warnings and errors of the library, sorted by what they speak of. Their texts land in `log_events`; no other rows follow."""

from __future__ import annotations

import re

from tracelab_parsers.nccl_log.line import LogLine, Rows

__all__ = ["ErrorReader"]

_STACK = re.compile(r"[\w./+-]{1,200}\.(?:cc|cu|cpp|hpp|h|c|cuh|hip):[0-9]{1,6}(?: \(\w{1,100}\))? -> -?[0-9]{1,4}(?: \[[^\]]{1,60}\])?\s*$")
_SOCKET_CALL = re.compile(r"Call to (?:recv|send|connect|accept|bind|listen|poll|getsockopt|setsockopt|socket|getpeername|shutdown)\b")
_NET = re.compile(r"(?:NET|COLLNET|GIN|RMA)/")
_NET_TROUBLE = re.compile(r"(?i)\berror|fail|timed? ?out|unable|couldn't|cannot")
_CUDA = re.compile(r"(?i)\b(?:cuda|hip|cu) (?:failure|error)|cudaError|hipError|\bCUDA_ERROR_")

# First that fits wins. A message about connections may speak of a mismatch (wrong magic, sizes), so that comes first.
_LINK = ("async event", "async fatal event", "async error event", "non-fatal async", "GID table changed", "port error")
_COMPLETION = ("Got completion", "completed with error", "Call to ibv_", "ibv_poll_cq", "ibv_modify_qp", "ibv_reg_mr", "ibv_post_")
_MISMATCH = ("mismatch in rank count", "Mismatched NCCL version", "essage truncated", "ismatch")
_ABORT = ("[Service thread] Connection closed", "bort")
_SOCKET = (
    "Connection closed by remote peer",
    "Connection closed by peer",
    "socketProgress",
    "socketPollConnect",
    "socketTryAccept",
    "socketFinalize",
    "socketStartConnect",
    "wrong magic",
    "wrong type",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "Broken pipe",
    "No route to host",
    "Accept failed",
    "Connect to ",
    "Net : ",
    "exceeded retries",
)
_ANY_LEVEL = frozenset({"WARN", "ABORT"})


class ErrorReader:
    """Knows every WARN and ABORT line, and the INFO lines that belong to errors: stacks, hints, retries, events of ports."""

    def take(self, line: LogLine, rows: Rows) -> str | None:  # noqa: ARG002 -- the interface of all readers
        """net-error, link-event, socket-error, cuda-error, mismatch, abort, stack, hint or warning; else None."""
        text = line.text
        if line.level in _ANY_LEVEL:
            return "abort" if line.level == "ABORT" else _stated(text) or "warning"
        if line.level != "INFO":
            return None
        if " -> " in text and _STACK.match(text):
            return "stack"
        if "HINT: " in text:
            return "hint"
        return _informed(text)

    def finish(self, rows: Rows) -> None:
        """Every message stands for itself."""


def _stated(text: str) -> str | None:
    """What a warning speaks of."""
    if any(part in text for part in _LINK):
        return "link-event"
    if any(part in text for part in _COMPLETION):
        return "net-error"
    if any(part in text for part in _MISMATCH):
        return "mismatch"
    if _CUDA.search(text[:400]):
        return "cuda-error"
    if any(part in text for part in _SOCKET) or _SOCKET_CALL.search(text) or text.startswith("NET/Socket"):
        return "socket-error"
    if any(part in text for part in _ABORT):
        return "abort"
    if text.startswith("HINT:"):
        return "hint"
    return "net-error" if _NET.match(text) and _NET_TROUBLE.search(text[:400]) else None


def _informed(text: str) -> str | None:
    """What an INFO line says of an error: newer versions moved some warnings there."""
    if "async" in text or "port error" in text or "GID table" in text:
        return "link-event" if any(part in text for part in _LINK) else None
    first = text[:1]
    if first in "NC" and text.startswith(("NET/", "COLLNET/")):
        return "net-error" if "Got completion" in text or "completed with error" in text else None
    if first == "[" and text.startswith(("[Service thread]", "[Proxy Service")):
        if "Connection closed by localRank" in text:
            return "abort"
        return (_stated(text) or "warning") if "ailed" in text else None
    if "retrying" in text:
        return "socket-error"
    if " failure" in text and _CUDA.search(text[:400]):
        return "cuda-error"
    if "wrong " in text and ("wrong magic" in text or "wrong type" in text):
        return "socket-error"
    if "losed by remote peer" in text or text.startswith(("Call to ", "socketP", "Net : ")):
        return "socket-error"
    return "mismatch" if "ismatch" in text and ("rank count" in text or "NCCL version" in text) else None
