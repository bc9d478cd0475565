"""Neighbours as `lldpctl` prints them, made up. `python -m tests.builders.lldp` writes `sample_traces/formats/lldp/` again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["KEYVALUE", "PLAIN", "interface", "json0", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"

KEYVALUE = """\
lldp.ens1f0np0.via=LLDP
lldp.ens1f0np0.rid=1
lldp.ens1f0np0.chassis.mac=0c:42:a1:00:00:07
lldp.ens1f0np0.chassis.name=leaf7
lldp.ens1f0np0.chassis.Bridge.enabled=on
lldp.ens1f0np0.port.local=etp1
lldp.ens1f0np0.port.descr=Ethernet0
lldp.ens1f0np0.via=LLDP
lldp.ens1f0np0.rid=2
lldp.ens1f0np0.chassis.name=leaf8
lldp.ens1f0np0.port.ifname=swp5
lldp.bond0.100.via=LLDP
lldp.bond0.100.chassis.name=host-b
lldp.bond0.100.chassis.Station.enabled=on
lldp.bond0.100.port.mac=b8:ce:f6:00:00:01
"""

PLAIN = """\
-------------------------------------------------------------------------------
LLDP neighbors:
-------------------------------------------------------------------------------
Interface:    ens1f0np0, via: LLDP, RID: 1, Time: 0 day, 00:05:12
  Chassis:
    ChassisID:    mac 0c:42:a1:00:00:07
    SysName:      leaf7
    SysDescr:     Switch: of the second kind
    MgmtIP:       10.0.0.7
    Capability:   Bridge, on
    Capability:   Router, off
  Port:
    PortID:       ifname Ethernet0
    PortDescr:    etp1
    TTL:          120
-------------------------------------------------------------------------------
"""


def interface(chassis: dict[str, Any], port: dict[str, Any]) -> dict[str, Any]:
    """One neighbour; `chassis` is keyed by its name, or bare where it has none."""
    return {"via": "LLDP", "rid": "1", "age": "0 day, 00:05:12", "chassis": chassis, "port": port}


def json0() -> dict[str, Any]:
    """The regular form: every value a list of objects."""
    chassis = {
        "id": [{"type": "mac", "value": "0c:42:a1:00:00:07"}],
        "name": [{"value": "leaf7"}],
        "capability": [{"type": "Bridge", "enabled": True}, {"type": "Wlan", "enabled": False}],
    }
    port = {"id": [{"type": "ifname", "value": "Ethernet0"}], "descr": [{"value": "etp1"}]}
    return {"lldp": [{"interface": [{"name": "ens1f0np0", "via": "LLDP", "chassis": [chassis], "port": [port]}]}]}


def write_samples(root: Path = FORMATS) -> None:
    """Writes the sample below `root`."""
    (root / "lldp").mkdir(parents=True, exist_ok=True)
    leaf = {"leaf7": {"id": {"type": "mac", "value": "0c:42:a1:00:00:07"}, "capability": {"type": "Bridge", "enabled": True}}}
    ports = [{f"ens{i}f0np0": interface(leaf, {"id": {"type": "ifname", "value": f"Ethernet{8 * i}"}})} for i in range(2)]
    (root / "lldp" / "host-a.json").write_text(json.dumps({"lldp": {"interface": ports}}, indent=2))


if __name__ == "__main__":
    write_samples()
