"""Tables of counters whose columns only the user can explain."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracelab
from tests.builders.kineto_writer import Job, write_job
from tracelab.errors import ManifestError

TABLE = "when;where;what;a;b\n1785000000;sw1;p1;10;20\n1785000001;sw1;p1;30;60\n"
MANIFEST = """
[tables."odd.txt"]
time = {column = "when", format = "s"}
node = "where"
device = "what"
counters = {a = "bytes:rx", b = {counter = "bytes:tx", scale = 4}}

[tables."gone.csv"]
node = "x"
"""


def test_a_table_is_read_as_it_is_described(tmp_path: Path) -> None:
    write_job(tmp_path, Job(world=2, hosts=1, steps=2))
    (tmp_path / "odd.txt").write_text(TABLE, encoding="utf-8")
    before = tracelab.open(tmp_path)
    assert "counter_samples" not in before.tables
    (tmp_path / "tracelab.toml").write_text(MANIFEST, encoding="utf-8")
    run = tracelab.open(tmp_path)
    found = run.tables["counter_samples"].select("node", "device", "direction", "counter", "raw", "value", "source_ts_ns").collect()
    assert sorted(found.with_columns(pl.col(pl.Categorical).cast(pl.String)).rows()) == [
        ("sw1", "p1", "rx", "bytes", 10, 10.0, 1_785_000_000_000_000_000),
        ("sw1", "p1", "rx", "bytes", 30, 30.0, 1_785_000_001_000_000_000),
        ("sw1", "p1", "tx", "bytes", 20, 80.0, 1_785_000_000_000_000_000),
        ("sw1", "p1", "tx", "bytes", 60, 240.0, 1_785_000_001_000_000_000),
    ]
    assert [(n.path, n.notice.code) for n in run.notices if n.notice.code == "manifest-names-no-file"] == [("gone.csv", "manifest-names-no-file")]


def test_another_description_is_another_reading(tmp_path: Path) -> None:
    """The cache knows the description: the same bytes, described otherwise, are read again."""
    write_job(tmp_path, Job(world=2, hosts=1, steps=2))
    (tmp_path / "odd.txt").write_text(TABLE, encoding="utf-8")
    counted = []
    for counter in ("bytes:rx", "packets:rx"):
        (tmp_path / "tracelab.toml").write_text(MANIFEST.replace('a = "bytes:rx"', f'a = "{counter}"'), encoding="utf-8")
        found = tracelab.open(tmp_path).tables["counter_samples"].filter(pl.col("direction") == "rx").collect()
        counted.append(set(found["counter"].cast(pl.String)))
    assert counted == [{"bytes"}, {"packets"}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense = 3", "nonsense"),
        ("node = 3", "$.node"),
        ('time = {column = "when", zone = "+24:00"}', "'+24:00' is no time zone"),
        ('time = {column = "when", zone = "Mars/Olympus"}', "'Mars/Olympus' is no time zone"),
        *((f'time = {{column = "when", format = "{form}"}}', f"{form!r} is no form of moments") for form in ("%Q", "%d %d %m %Y", "%H:%M:%S", "seconds", "%")),
        ('counters = {a = "bytes:up"}', "a direction is tx or rx"),
        ("counters = {a = {counter = 'bytes', scale = 0.0}}", "scale"),
        ("counters = {a = {counter = 'bytes', scale = nan}}", "scale"),
        ("counters = {a = {counter = 'bytes', port = 2147483648}}", "port"),
        ("counters = {a = {counter = 'bytes', priority = 8}}", "priority"),
        ("delimiter = '\"'", "no delimiter"),
    ],
)
def test_a_wrong_description_is_said_before_anything_is_read(line: str, said: str, tmp_path: Path) -> None:
    """As every other mistake in the manifest: what the user meant is not known, and a notice among many would be overlooked."""
    (tmp_path / "odd.txt").write_text(TABLE, encoding="utf-8")
    (tmp_path / "tracelab.toml").write_text(f'[tables."odd.txt"]\n{line}\n', encoding="utf-8")
    with pytest.raises(ManifestError) as raised:
        tracelab.open(tmp_path)
    assert raised.value.exit_code == 2
    assert raised.value.message.startswith(f'{tmp_path / "tracelab.toml"}: [tables."odd.txt"]: ')
    assert said in raised.value.message
    assert raised.value.hint
