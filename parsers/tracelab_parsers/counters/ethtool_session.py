"""What the network tools of one host print one after another: which output is being read, of which device, from which moment."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracelab_parsers.counters.headings import Heading, heading_of
from tracelab_parsers.counters.host_output import Output
from tracelab_parsers.counters.names_ethernet import ethtool_meaning, is_of_port
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.values import is_digits
from tracelab_parsers.counters.writing import Subject, TimeQuality

__all__ = ["STARTS", "Session", "is_netdev"]

_SETTINGS = re.compile(r"Settings for (?P<netdev>[\w.@:-]+):")
_SPEED = re.compile(r"Speed: (\d{1,9})Mb/s")
_LANES = re.compile(r"Lanes: (\d{1,4})")
_DRIVER = re.compile(r"(?P<key>driver|version|firmware-version|expansion-rom-version|bus-info|supports-[\w-]+): ?(?P<value>.*)")
_RDMA = re.compile(r"(?:\d+/\d+: )?link (?P<device>[\w.-]+)/(?P<port>\d{1,3})(?: (?P<rest>.*))?")
_MAP = re.compile(
    r"(?:(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d) )?(?P<device>[\w.-]+) (?:\([^\n]*?\) [^\n]*?)?port (?P<port>\d{1,3})"
    r"(?: \([^)]*\))? ==> (?P<netdev>\S+) \((?P<state>Up|Down)\).*"
)
_CA = re.compile(r"CA '(?P<device>[\w.-]+)'")
_FACT = re.compile(r"(?P<key>[A-Z][\w ]{1,24}): ?(?P<value>.*)")
_PORT = re.compile(r"Port (?P<port>\d{1,3}):")
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", re.IGNORECASE)
_NAME = re.compile(r"(?:={2,}|-{2,}|#+|\*{2,})? ?\[?(?P<name>[A-Za-z][\w.@-]{1,63})\]?:?(?: ?(?:={2,}|-{2,}|#+|\*{2,}))?")
_NETDEV = re.compile(r"(?:eth|en[opsxP]|ib|bond|team|hsn|roce|rdma|rail|slave|p\d+p\d|mlx|br|vlan|wl|lo$)[\w.@-]{0,14}", re.IGNORECASE)
_GUID = re.compile(r"(?:0x)?([0-9a-f]{16})")
_NO_STATISTICS = frozenset({"cntn", "lqpn", "PID", "pid"})
"""What `rdma statistic` prints before the counters of single queue pairs, which the port's hold already."""
STARTS = re.compile(r"\s*(?:NIC statistics:|Settings for \S+:$|link \S+/\d|CA '|driver: \S|\S+ \S.* ==> \S+ \(|[#=+] ?\S* ?ethtool |\S+ port \d+ ==> )")
"""How the outputs of these tools begin."""


def is_netdev(name: str) -> bool:
    """Whether `name` looks like a network device's rather than a machine's."""
    return _NETDEV.fullmatch(name) is not None


class Session:
    """Reads the lines of one host in order and gives rows to `out`."""

    def __init__(self, out: Output, node: str | None = None) -> None:
        self._out, self.node = out, node
        self._ts_ns: int | None = None
        self._quality: TimeQuality | None = None
        self._netdev: str | None = None
        self._named: tuple[str, int] | None = None
        self._counting: Subject | None = None
        self._of_port = self._in_statistics = False
        self._facts: dict[str, object] | None = None
        self._guid: str | None = None
        self._section: Callable[[int, str], bool] | None = None

    @property
    def counts(self) -> bool:
        """Whether the lines being read are statistics."""
        return self._in_statistics

    def read(self, number: int, offset: int, text: str) -> None:
        """One line; those that belong to nothing known are counted."""
        if (self._in_statistics and self._statistic(number, text)) or not text.strip():
            return
        if text[0] not in " \t" and (heading := heading_of(text)) is not None:
            self.close()
            self._head(heading)
        elif not (self._starts(number, text.strip()) or (self._section is not None and self._section(number, text))):
            self._unknown(offset, text)

    def _unknown(self, offset: int, text: str) -> None:
        """A name that stands alone may tell whose output follows; all else is counted."""
        self._forget()
        named = _NAME.fullmatch(text.rstrip())
        if named is None:  # a stray line does not end an output
            self._out.notices.add("unread-lines", offset)
        else:
            self.close()
            self._named = named["name"], offset

    def _forget(self) -> None:
        """A name that stood alone and told nothing is a line that nobody understood."""
        if self._named is not None:
            self._out.notices.add("unread-lines", self._named[1])
        self._named = None

    def _adopt(self) -> None:
        """The name that stood alone before an output is that of its device or of its machine."""
        if self._named is None:
            return
        name, self._named = self._named[0], None
        if is_netdev(name):
            self._netdev = name
        else:
            self.node, self._netdev = name, None

    def _starts(self, number: int, text: str) -> bool:
        """Whether an output begins on this line."""
        if text == "NIC statistics:":
            self._statistics()
        elif (found := _SETTINGS.fullmatch(text)) is not None:
            self._begin(self._setting, {"line": number, "netdev": found["netdev"], "origin": "ethtool"})
        elif (found := _RDMA.fullmatch(text)) is not None:
            self._rdma(number, found)
        elif (found := _MAP.fullmatch(text)) is not None:
            self._tie(number, found)
        elif (found := _CA.fullmatch(text)) is not None:
            self._begin(self._ibstat, {"line": number, "device": found["device"], "origin": "ibstat"})
            self._guid = None
        elif self._section != self._ibstat and (found := _DRIVER.fullmatch(text)) is not None:
            self._driver(number, found)
        else:
            return False
        return True

    def _head(self, heading: Heading) -> None:
        if heading.ts_ns is not None:
            self._ts_ns, self._quality = heading.ts_ns, heading.quality
        self.node = heading.node or self.node
        if heading.command is None:
            return
        self._adopt()
        words = heading.command.partition("|")[0].split()
        devices = [w for w in words if not w.startswith("-")]
        at = next((n for n, w in enumerate(devices) if w.rsplit("/", 1)[-1] == "ethtool"), None)
        self._netdev = devices[at + 1] if at is not None and at + 1 < len(devices) else None
        if at is not None and ("-S" in words or "--statistics" in words):
            self._statistics()

    def close(self) -> None:
        """Ends an output; facts that were gathered become a row."""
        facts = self._facts
        if facts is not None and (facts.get("port") is not None or facts["origin"] != "ibstat"):
            self._out.interface(node=self.node, **facts)
        self._facts, self._section, self._in_statistics = None, None, False

    def end(self) -> None:
        """Ends the session."""
        self.close()
        self._forget()

    def _begin(self, section: Callable[[int, str], bool], facts: dict[str, object] | None = None) -> None:
        self.close()
        self._adopt()
        self._section, self._facts = section, facts

    def _statistics(self) -> None:
        self._begin(self._statistic)
        self._in_statistics = True
        self._counting = Subject("netdev", self._netdev, node=self.node, node_kind="host")
        self._of_port = False

    def _statistic(self, number: int, text: str) -> bool:
        name, _, value = text.rpartition(":")
        name, value = name.strip(), value.strip()
        if not name or not value or " " in value or self._counting is None or text[0] not in " \t":
            return False
        self._of_port = self._of_port or is_of_port(name)
        self._out.number(number, self._counting, name, ethtool_meaning(name, of_port=self._of_port), value, self._ts_ns, self._quality)
        return True

    def _setting(self, number: int, text: str) -> bool:  # noqa: ARG002 - the row has the line of its first
        if self._facts is None or (text[0] not in " \t" and not text.startswith("netlink error")):
            return False
        text = text.strip()
        if (speed := _SPEED.fullmatch(text)) is not None:
            self._facts["speed_bps"] = int(speed[1]) * 1_000_000
        elif (lanes := _LANES.fullmatch(text)) is not None:
            self._facts["lanes"] = int(lanes[1])
        elif text.startswith("Link detected:"):
            self._facts["up"] = text.startswith("Link detected: yes")
        return True

    def _driver(self, number: int, found: re.Match[str]) -> None:
        self._adopt()
        if found["key"] == "bus-info" and self._netdev is not None and _PCI.fullmatch(found["value"].strip()):
            self._out.interface(line=number, node=self.node, netdev=self._netdev, pci=found["value"].strip().lower(), origin="ethtool")

    def _tie(self, number: int, found: re.Match[str]) -> None:
        self._begin(self._passed_over)
        self._out.interface(
            line=number,
            node=self.node,
            device=found["device"],
            port=int(found["port"]),
            netdev=found["netdev"],
            up=found["state"] == "Up",
            pci=found["pci"],
            origin="ibdev2netdev",
        )

    def _ibstat(self, number: int, text: str) -> bool:
        facts = self._facts
        if facts is None or text[0] not in " \t":
            return False
        text = text.strip()
        if (port := _PORT.fullmatch(text)) is not None:
            device = facts["device"]
            self._begin(self._ibstat, {"line": number, "device": device, "origin": "ibstat", "port": int(port["port"]), "node_uid": self._guid})
        elif (fact := _FACT.fullmatch(text)) is not None:
            self._ibstat_fact(facts, fact["key"], fact["value"].strip())
        else:
            return False
        return True

    def _ibstat_fact(self, facts: dict[str, object], key: str, value: str) -> None:
        guid = _GUID.fullmatch(value)
        if key == "Node GUID" and guid is not None:
            self._guid = guid[1]
        elif key == "Port GUID" and guid is not None and int(guid[1], 16):
            facts["uid"] = guid[1]
        elif key == "State":
            facts["up"] = value == "Active"
        elif key == "Base lid" and is_digits(value, 9):
            facts["lid"] = int(value) or None
        elif key == "Rate" and (rate := re.match(r"\d{1,6}(?:\.\d+)?", value)) is not None:
            facts["speed_bps"] = int(float(rate.group()) * 1e9)
        elif key == "Link layer" and value in ("InfiniBand", "Ethernet"):
            facts["link_layer"] = value

    def _rdma(self, number: int, found: re.Match[str]) -> None:
        """`rdma statistic`: counters on the line, or below it; `rdma link`: what the port is."""
        self._adopt()
        subject = Subject("rdma", found["device"], node=self.node, node_kind="host", port=int(found["port"]))
        words = (found["rest"] or "").split()
        pairs = dict(zip(words[::2], words[1::2], strict=False))
        if "state" in pairs:
            state = {"ACTIVE": True, "DOWN": False}.get(pairs["state"])
            lid = pairs.get("lid", "")
            lid_number = int(lid) if is_digits(lid, 8) else None
            netdev = pairs.get("netdev")
            self._begin(self._passed_over)
            self._out.interface(line=number, node=self.node, device=found["device"], port=subject.port, netdev=netdev, up=state, lid=lid_number, origin="rdma")
            return
        self._counting = subject
        of_pair = bool(_NO_STATISTICS & pairs.keys())
        self._begin(self._passed_over if of_pair else self._rdma_below)
        for name, value in pairs.items() if not of_pair else ():
            self._out.number(number, subject, name, infiniband_meaning(name), value, self._ts_ns, self._quality)

    def _rdma_below(self, number: int, text: str) -> bool:
        words = text.split()
        if self._counting is None or text[0] not in " \t" or len(words) % 2:
            return False
        for name, value in zip(words[::2], words[1::2], strict=True):
            self._out.number(number, self._counting, name, infiniband_meaning(name), value, self._ts_ns, self._quality)
        return True

    def _passed_over(self, number: int, text: str) -> bool:  # noqa: ARG002 - has the form of all sections
        return text[0] in " \t"
