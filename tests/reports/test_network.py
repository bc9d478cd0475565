"""The pictures and tables of links, from tables whose numbers are small enough to check by eye."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.builders.result import example_result
from tests.reports.test_browser import browser, close, visit  # noqa: F401
from tracelab.results import DataColumn, DataTable, Link, RunResult, Section
from tracelab_reports.figures import Figure
from tracelab_reports.html import REPORTER
from tracelab_reports.linkfigures import MEAN_LINES, PEAK_LINE, Levels, Loads, Wiring
from tracelab_reports.page import build_page
from tracelab_reports.plots import draw
from tracelab_reports.sections import body_of
from tracelab_reports.sections.cabling import cables_of, natural
from tracelab_reports.tableview import table_view

if TYPE_CHECKING:
    from playwright.sync_api import Browser

S = 10**9
START = 1_700_000_000 * S
HOSTILE = "</script><script>alert(1)</script>{{7*7}} $(x) \\(y\\)" + "n" * 300


def table(table_id: str, **columns: list[Any]) -> DataTable:
    return DataTable(table_id, table_id, [DataColumn(name, "", "", values) for name, values in columns.items()])


def utilisation(hosts: int, *, speed: bool = True, host: str = "h{}") -> DataTable:
    """Host n hangs with mlx5_0 on port n of leaf1: it sends (n + 1) % and receives half of that; the switch counts the same."""
    rows = []
    for n in range(hosts):
        for side, node, port in (("a", host.format(n), "mlx5_0"), ("b", "leaf1", str(n))):
            for direction in ("rx", "tx"):
                up = (direction == "tx") == (side == "a")
                mean = (n + 1) / 100 * (1.0 if up else 0.5)
                rows.append((node, port, n, side, 0, True, direction, mean, 1.5 * mean, 2 * mean, mean * 1e9))
    names = ("node", "port", "link", "side", "tier", "used", "direction", "mean", "p95", "peak", "bytes_per_s")
    columns: dict[str, list[Any]] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    if not speed:
        columns |= {name: [None] * len(rows) for name in ("mean", "p95", "peak")}
    return table("link_utilisation", **columns, lower_bound=[False] * len(rows))


def load(hosts: int, samples: int = 3) -> DataTable:
    """Sample s of a second: host n sends (n + 1 + s) % and receives nothing."""
    rows = [(n, "a", d, START + s * S, START + (s + 1) * S, d == "tx", n + 1 + s) for n in range(hosts) for d in ("rx", "tx") for s in range(samples)]
    return table(
        "link_load",
        link=[r[0] for r in rows],
        side=[r[1] for r in rows],
        direction=[r[2] for r in rows],
        start_ns=[r[3] for r in rows],
        end_ns=[r[4] for r in rows],
        bytes_per_s=[1e7 * r[6] * r[5] for r in rows],
        utilisation=[r[6] / 100 * r[5] for r in rows],
    )


def document(*sections: Section, links: tuple[Link, ...] = (Link("h1", "mlx5_0", "leaf1", "1"),), steps: int = 3) -> RunResult:
    """A document with one finding of a slow link, and steps of a second each."""
    example = example_result(4, 3)
    findings = [msgspec.structs.replace(example.findings[0], kind="slow_link", links=list(links))] if links else []
    run = msgspec.structs.replace(example.run, start_ns=START, end_ns=START + steps * S)
    times = table("step_times", step=list(range(7, 7 + steps)), start_ns=[START + i * S for i in range(steps)], length_ns=[S] * steps)
    return msgspec.structs.replace(example, run=run, findings=findings, sections=[Section("steps", "", "", "", [times]), *sections])


def links_section(*tables: DataTable) -> Section:
    return Section("links", "Links", "How full?", "An answer.", list(tables))


SIGNALS = table(
    "link_signals",
    link=[0, 1, 1],
    family=["waiting", "integrity", "waiting"],
    name=["h0 mlx5_0 (leaf1 0)", "h1 mlx5_0 (leaf1 1)", "h1 mlx5_0 (leaf1 1)"],
    node=["h0", "h1", "leaf1"],
    counter=["xmit_wait_ticks", "symbol_errors", "xmit_wait_ticks"],
    count=[5.0, 900.0, 7.0],
    per_s=[1.0, 90.0, 2.0],
    usual=[0.0, 0.0, 0.0],
)
FAULTS = Section("network", "Network faults", "Which link?", "An answer.", [SIGNALS])


def figures(section: Section, result: RunResult) -> dict[str, Figure]:
    return {f.id: f for f in body_of(section, result).figures}


def levels_of(section: Section, result: RunResult) -> Levels:
    found = figures(section, result)["link-levels"]
    assert isinstance(found, Levels)
    return found


def loads_of(section: Section, result: RunResult) -> Loads:
    found = figures(section, result)["link-loads"]
    assert isinstance(found, Loads)
    return found


def wiring_of(result: RunResult, section: Section = FAULTS) -> Wiring:
    found = figures(section, result)["network-wiring"]
    assert isinstance(found, Wiring)
    return found


def values(table_: DataTable, name: str) -> list[Any]:
    return table_.column(name)


def test_links_are_put_together_from_their_ends_and_findings() -> None:
    links = links_section(utilisation(3))
    cables = cables_of(document(links, FAULTS))
    assert {n: c.name for n, c in cables.items()} == {0: "h0 mlx5_0 ↔ leaf1 port 0", 1: "h1 mlx5_0 ↔ leaf1 port 1", 2: "h2 mlx5_0 ↔ leaf1 port 2"}
    assert [c.verdict for c in cables.values()] == ["", "Slow link", ""]
    assert [c.families for c in cables.values()] == [("waiting",), ("integrity", "waiting"), ()]


@pytest.mark.parametrize(
    "link",
    [Link("h1", "mlx5_0"), Link(switch="leaf1", port="1"), Link("h1", "ens1f0np0", "leaf1", "1"), Link("h1", "mlx5_0", "other", "name")],
)
def test_either_end_tells_which_link_a_finding_means(link: Link) -> None:
    cables = cables_of(document(links_section(utilisation(3)), links=(link,)))
    assert [n for n, c in cables.items() if c.verdicts] == [1]


def test_a_link_that_no_end_is_known_of_goes_by_the_name_of_its_signal() -> None:
    cables = cables_of(document(FAULTS))
    assert cables[1].name == "h1 mlx5_0 (leaf1 1)"
    assert cables[1].verdicts == ("slow_link",)


def test_bars_show_mean_p95_and_peak_of_both_directions() -> None:
    links = links_section(utilisation(2))
    figure = levels_of(links, document(links))
    assert figure.links == ["h0 mlx5_0 ↔ leaf1 port 0", "▲ h1 mlx5_0 ↔ leaf1 port 1"]
    up, down = figure.bars[2:]
    assert (up.up, up.mean, up.p95, up.peak) == pytest.approx((True, 2.0, 3.0, 4.0))
    assert (down.up, down.mean, down.p95, down.peak) == pytest.approx((False, 1.0, 1.5, 2.0))
    assert figure.alt == "Bars of 2 links, both directions. The fullest is h1 mlx5_0 ↔ leaf1 port 1, up: 4.0 % in its fullest interval."
    assert figure.unit == "%"


def test_the_switch_speaks_where_the_host_has_no_counter_and_its_directions_are_turned() -> None:
    whole = utilisation(2)
    keep = [i for i, side in enumerate(whole.column("side")) if side == "b"]
    only = msgspec.structs.replace(whole, columns=[msgspec.structs.replace(c, values=[c.values[i] for i in keep]) for c in whole.columns])
    bars = levels_of(links_section(only), document(links_section(only), links=())).bars
    assert [b.up for b in bars] == [True, False, True, False]
    assert [b.mean for b in bars] == pytest.approx([1.0, 0.5, 2.0, 1.0])


def test_without_speeds_bars_are_bytes_and_nothing_is_compared() -> None:
    links = links_section(utilisation(2, speed=False))
    body = body_of(links, document(links))
    (figure,) = body.figures
    assert isinstance(figure, Levels)
    # 2 % of 1 GB/s is the most: 20 MB/s
    assert (figure.unit, [b.mean for b in figure.bars], list(figure.guides)) == ("MB/s", [10.0, 5.0, 20.0, 10.0], [])
    assert all(b.p95 is None and b.peak is None for b in figure.bars)
    assert list(body.notes) == []
    assert "not known" in figure.note


def test_the_reference_lines_come_with_their_caveat() -> None:
    links = links_section(utilisation(2), load(2))
    body = body_of(links, document(links))
    for figure in body.figures:
        assert isinstance(figure, Loads | Levels)
        assert [(g.name, g.low, g.high) for g in figure.guides] == [(MEAN_LINES, 60, 80), (PEAK_LINE, 95, 95)]
    assert "no rule of health" in body.notes[0]


def test_many_links_are_those_of_findings_and_the_fullest_and_the_others_are_counted() -> None:
    links = links_section(utilisation(50), load(50))
    result = document(links)
    bars = levels_of(links, result)
    # of 50 links the 19 fullest are 31 to 49; the blamed one is number 1
    assert bars.links == ["▲ h1 mlx5_0 ↔ leaf1 port 1", *(f"h{n} mlx5_0 ↔ leaf1 port {n}" for n in range(31, 50))]
    assert "Shown are 20 of 50 links" in bars.note
    lines = loads_of(links, result)
    assert [line.link for line in lines.lines if line.up] == ["▲ h1 mlx5_0 ↔ leaf1 port 1", *(f"h{n} mlx5_0 ↔ leaf1 port {n}" for n in range(46, 50))]
    assert "Shown are 5 of 50 links" in lines.note
    assert lines.others_label == "45 other links, lowest to highest"
    # the others are 0 and 2 to 45: they receive nothing, and the fullest sends 46, 47 and 48 %
    assert [tuple(round(v, 6) for v in box) for box in lines.others] == [(0, 1, 0, 46), (1, 2, 0, 47), (2, 3, 0, 48)]


def test_lines_and_steps_share_the_axis_of_time() -> None:
    links = links_section(utilisation(2), load(2))
    figure = loads_of(links, document(links))
    assert (figure.x_unit, figure.y_unit) == ("s", "%")
    assert [(s.label, s.start, s.end) for s in figure.steps] == [("7", 0, 1), ("8", 1, 2), ("9", 2, 3)]
    first = next(line for line in figure.lines if line.up)
    assert first.link == "▲ h1 mlx5_0 ↔ leaf1 port 1"
    assert [tuple(round(v, 6) for v in span) for span in first.spans] == [(0, 1, 2), (1, 2, 3), (2, 3, 4)]
    looks = {(line.link, line.color, line.mark) for line in figure.lines}
    assert len({color for _, color, _ in looks}) == len({mark for *_, mark in looks}) == 2
    assert figure.table == "link_load"


def test_many_steps_and_samples_are_joined_without_losing_a_peak() -> None:
    links = links_section(utilisation(1), load(1, 1_500))
    figure = loads_of(links, document(links, links=(), steps=1_000))
    assert len(figure.steps) == 112  # nine at a time
    assert figure.steps[0].label == "7–15"
    assert "9 steps of the job each" in figure.note
    spans = next(line for line in figure.lines if line.up).spans
    assert len(spans) == 500
    assert spans[0][2] == pytest.approx(3.0)  # the third of 1, 2 and 3 %
    assert spans[-1][2] == pytest.approx(1_500.0)


def test_without_a_series_there_is_no_line() -> None:
    links = links_section(utilisation(2))
    assert list(figures(links, document(links))) == ["link-levels"]


def test_the_sketch_groups_links_by_switch_and_marks_the_blamed_one() -> None:
    ends = utilisation(3)
    up = table(
        "link_health",
        link=[3, 4],
        a_node=["leaf1", "leaf2"],
        a_port=["Eth10", "Eth2"],
        b_node=["spine1", None],
        b_port=["7", None],
        used=[True, None],
        suspect=[None, "the cable"],
    )
    tiers = table("link_errors", link=[3, 4], side=["a", "a"], node=["leaf1", "leaf2"], port=["Eth10", "Eth2"], tier=[1, 1], used=[True, None])
    result = document(FAULTS, links_section(ends), Section("link_health", "", "", "", [up, tiers]))
    sketch = wiring_of(result)
    first, second = sketch.blocks
    assert (first.switch, [w.text for w in first.below]) == ("leaf1", ["△ h0 mlx5_0 – waiting", "▲ h1 mlx5_0 – slow link", "h2 mlx5_0"])
    assert [(w.port, w.text) for w in first.above] == [("Eth10", "spine1 port 7")]
    assert (second.switch, [(w.port, w.text, w.used) for w in second.above]) == ("leaf2", [("Eth2", "other end not known", False)])
    assert [key.name for key in sketch.keys] == ["named in a finding", "counters stand out", "not known to be used by the job", "other links"]
    assert sketch.alt == "Sketch of 2 switches with 5 links. Named in findings: h1 mlx5_0 ↔ leaf1 port 1."
    wiring = next(t for t in body_of(FAULTS, result).tables if t.id == "wiring")
    assert values(wiring, "link") == [0, 1, 2, 3, 4]
    assert values(wiring, "finding") == [None, "▲ Slow link", None, None, None]
    assert values(wiring, "to") == ["h0", "h1", "h2", "spine1", None]
    assert values(wiring, "points to")[4] == "the cable"


def test_links_that_the_job_does_not_use_are_not_drawn() -> None:
    ends = utilisation(2)
    changed = msgspec.structs.replace(ends, columns=[*(c for c in ends.columns if c.name != "used"), DataColumn("used", "", "", [True] * 4 + [False] * 4)])
    links = links_section(changed)
    result = document(links, FAULTS, links=())
    assert [w.far for w in wiring_of(result).blocks[0].below] == ["h0 mlx5_0"]
    assert levels_of(links, result).links == ["h0 mlx5_0 ↔ leaf1 port 0"]


def test_signals_of_the_blamed_link_come_first_with_its_name() -> None:
    (signals, *_) = body_of(FAULTS, document(FAULTS, links_section(utilisation(2)))).tables
    assert values(signals, "finding") == ["▲ Slow link", "▲ Slow link", None]
    assert values(signals, "node") == ["h1", "leaf1", "h0"]
    (plain, *_) = body_of(FAULTS, document(FAULTS, links_section(utilisation(2)), links=())).tables
    assert [c.name for c in plain.columns] == [c.name for c in SIGNALS.columns]


def test_rows_that_stand_out_come_first_and_none_is_lost() -> None:
    errors = table(
        "link_errors",
        node=["h0", "h0", "h2", "h1"],
        port=["mlx5_0"] * 4,
        link=[0, 0, 2, 1],
        side=["a"] * 4,
        counter=["x", "y", "x", "x"],
        total=[0.0, 4.0, 90.0, 0.0],
        pattern=["none", "burst", "steady", "none"],
    )
    health = Section("link_health", "", "", "", [errors])
    (shown,) = body_of(health, document(health, links_section(utilisation(3)))).tables
    assert list(zip(values(shown, "node"), values(shown, "counter"), values(shown, "total"), strict=True)) == [
        ("h1", "x", 0.0),  # blamed
        ("h2", "x", 90.0),
        ("h0", "y", 4.0),
        ("h0", "x", 0.0),
    ]
    assert {c.name for c in shown.columns} == {c.name for c in errors.columns} | {"finding"}


def test_the_page_holds_each_table_once_beside_its_figure() -> None:
    result = document(FAULTS, links_section(utilisation(3), load(3)))
    page = build_page(result)
    parts = {p.anchor: p for p in page.sections}
    assert [(b.figure.id if b.figure else None, b.table.title if b.table else None) for b in parts["section-network"].blocks] == [
        ("network-wiring", "Links of the job by switch"),
        (None, "link_signals"),
    ]
    assert [(b.figure.id if b.figure else None, b.table.title if b.table else None) for b in parts["section-links"].blocks] == [
        ("link-loads", "link_load"),
        ("link-levels", "link_utilisation"),
    ]


@pytest.mark.parametrize("hosts", [1, 8, 2048])
def test_every_size_is_drawn_and_stays_small(hosts: int) -> None:
    links = links_section(utilisation(hosts), load(min(hosts, 64), 60))
    result = document(links, FAULTS)
    drawn = draw([wiring_of(result), loads_of(links, result), levels_of(links, result)])
    assert set(drawn.roots) == {"network-wiring", "link-loads", "link-levels"}
    assert len(drawn.docs_json) < 300_000
    (block,) = wiring_of(result).blocks
    assert len(block.below) + block.below_left_out == hosts
    assert len(block.below) <= 10


def test_a_large_fabric_shows_the_switch_of_the_blamed_link_first() -> None:
    rows = [(f"h{n}", "mlx5_0", f"leaf{n // 32}", str(n % 32)) for n in range(2_048)]
    health = table("link_health", link=list(range(2_048)), **{k: [r[i] for r in rows] for i, k in enumerate(("a_node", "a_port", "b_node", "b_port"))})
    result = document(FAULTS, Section("link_health", "", "", "", [health]), links=(Link("h1000", "mlx5_0"),))
    sketch = wiring_of(result)
    assert sketch.blocks[0].switch == "leaf31"
    assert [w.far for w in sketch.blocks[0].below if w.verdict] == ["h1000 mlx5_0"]
    assert sum(b.rows for b in sketch.blocks) <= 40
    assert "Shown are 30 of 2,048 links, at 3 of 64 switches" in sketch.note


@pytest.mark.parametrize(("host", "name"), [("h{}.dc.example.com", "h1"), ("10.0.0.{}", "10.0.0.1"), ("h.{}", "h.1")])
def test_names_go_without_the_domain_that_all_share(host: str, name: str) -> None:
    links = links_section(utilisation(3, host=host))
    assert cables_of(document(links))[1].name == f"{name} mlx5_0 ↔ leaf1 port 1"


@pytest.mark.parametrize(
    "broken",
    [
        [],
        [table("link_utilisation", link=["x"], side=[None], direction=[3], bytes_per_s=["much"])],
        [table("link_utilisation", link=[0], side=["a"], direction=["tx"], bytes_per_s=[float("nan")], node=["h"], port=["p"])],
        [utilisation(2), table("link_load", link=[0], side=["a"], direction=["tx"], start_ns=[5], end_ns=[5], bytes_per_s=[1.0])],
        [table("link_load", link=[2**70], side=[["a"]], direction=[{}], start_ns=["x"], end_ns=[None], bytes_per_s=[-1.0])],
    ],
)
def test_nonsense_gives_no_picture_and_no_error(broken: list[DataTable]) -> None:
    links = links_section(*broken)
    assert set(figures(links, document(links))) <= {"link-levels"}
    assert build_page(document(links, Section("network", "", "", "", [table("link_signals", link=[None], family=[4])]))).sections


def hostile_result() -> RunResult:
    links = links_section(utilisation(3, host=HOSTILE + "{}"), load(3))
    return document(FAULTS, links, links=(Link(HOSTILE + "1", "mlx5_0"),))


def test_hostile_names_are_text() -> None:
    result = hostile_result()
    page = REPORTER.render(result)
    assert "<script>alert(1)" not in page
    assert "49}}" not in page
    drawn = [f for s in result.sections for f in body_of(s, result).figures]
    assert {"network-wiring", "link-loads", "link-levels"} <= {f.id for f in drawn}
    text = json.dumps(json.loads(draw(drawn).docs_json), ensure_ascii=False)
    assert "$(" not in text
    assert "CustomJS" not in text
    assert max(len(c.name) for c in cables_of(result).values()) < 150


@pytest.mark.parametrize(
    ("name", "unit", "value", "heading", "text"),
    [
        ("speed_bps", "bit/s", 200_000_000_000, "speed", "200 Gbit/s"),
        ("bytes", "byte", 1.5e9, "bytes", "1.50 GB"),
        ("bytes_per_s", "byte/s", 6.33e9, "bytes per s", "6.33 GB/s"),
        ("peak", "ratio", 0.257, "peak", "25.7 %"),
        ("share", "ratio", 0.000_025, "share", "0.0025 %"),
        ("max_over_mean", "ratio", 2.846, "max over mean", "2.846"),
        ("paused_us", "us", 84.0, "paused", "84.0 µs"),
        ("count", "", 209_824.0, "count", "209,824"),
    ],
)
def test_units_of_counters_are_words(name: str, unit: str, value: float, heading: str, text: str) -> None:
    view = table_view(DataTable("t", "T", [DataColumn(name, unit, "", [value])]))
    assert (view.columns[0].heading, view.rows[0][0]) == (heading, text)


def test_names_with_numbers_sort_as_people_count() -> None:
    assert sorted(["Eth10", "Eth9", "leaf", "Eth"], key=natural) == ["Eth", "Eth9", "Eth10", "leaf"]


PLACE = """([id, value, across]) => {
    const view = [...Bokeh.index.roots].find((v) => v.model.id === document.querySelector('#chart-' + id).dataset.root)
    const box = view.el.getBoundingClientRect(), f = view.frame
    return across ? [box.x + f.x_scale.compute(value), box.y + f.bbox.vcenter] : [box.x + f.bbox.hcenter, box.y + f.y_scale.compute(value)]
}"""
GUIDES = """(id) => {
    const view = [...Bokeh.index.roots].find((v) => v.model.id === document.querySelector('#chart-' + id).dataset.root)
    return Object.fromEntries(view.model.center.filter((c) => c.name).map((c) => [c.name, [c.visible, c.location ?? 0]]))
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("network") / "page.html"
    out.write_text(REPORTER.render(hostile_result()), encoding="utf-8")
    return out


@pytest.mark.parametrize(("figure", "across"), [("link-loads", False), ("link-levels", True)])
def test_the_reader_moves_and_hides_the_reference_lines(browser: Browser, file: Path, figure: str, across: bool) -> None:  # noqa: F811
    seen = visit(browser, file)
    seen.page.locator(f"#chart-{figure}").scroll_into_view_if_needed()
    assert seen.page.evaluate(GUIDES, figure) == {MEAN_LINES: [True, 0], PEAK_LINE: [True, 95]}
    seen.page.mouse.move(*seen.page.evaluate(PLACE, [figure, 95, across]))
    seen.page.mouse.down()
    seen.page.mouse.move(*seen.page.evaluate(PLACE, [figure, 40, across]), steps=4)
    seen.page.mouse.up()
    assert seen.page.evaluate(GUIDES, figure)[PEAK_LINE] == [True, pytest.approx(40, abs=1)]
    button = seen.page.locator(f"#{figure} button[data-part={MEAN_LINES}]")
    for shown in (False, True):
        button.click()
        assert button.get_attribute("aria-pressed") == str(shown).lower()
        assert seen.page.evaluate(GUIDES, figure)[MEAN_LINES] == [shown, 0]
    assert (seen.dialogs, seen.errors, seen.requests) == ([], [], [seen.url])
    close(seen)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_window(browser: Browser, file: Path, width: int) -> None:  # noqa: F811
    seen = visit(browser, file, width=width, dark=True)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    close(seen)
