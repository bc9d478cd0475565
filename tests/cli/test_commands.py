"""The outward contract of the commands: exit codes, what goes to stdout, what is never overwritten."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from tests.builders.kineto_writer import Job, write_job
from tracelab.cli.app import main


@dataclass
class Ended:
    code: int
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command line in this process."""

    def run(*args: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["tracelab", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "traces"
    write_job(folder, Job(world=4, hosts=2, steps=4, seed=3))
    return folder


@pytest.fixture(scope="module")
def slow_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "slow"
    write_job(folder, Job(world=4, hosts=2, steps=6, seed=3, slow={2: 1.5}))
    return folder


def test_analyze_needs_no_flags(call: Call, job: Path) -> None:
    ended = call("analyze", job)
    report = job.with_name("traces.tracelab.html")
    assert ended.code == 0
    assert ended.out.splitlines()[0].startswith("No cause of lost time stands out")
    assert ended.out.splitlines()[-1] == f"wrote {report}"
    assert report.read_text().lower().startswith("<!doctype html>")
    assert call("analyze", job).code == 0, "the default report is tracelab's own: it may be written again"


def test_json_on_stdout_is_alone_and_equal_on_every_run(call: Call, job: Path, tmp_path: Path) -> None:
    first = call("analyze", job, "-o", tmp_path / "a.html", "--json", "-")
    again = call("analyze", job, "-o", tmp_path / "b.html", "--json", "-", "--cache-dir", tmp_path / "cache", "--jobs", "2")
    assert json.loads(first.out)["schema"] == "tracelab.findings/1"
    assert first.out == again.out
    assert f"wrote {tmp_path / 'a.html'}" in first.err


def test_nothing_is_overwritten_without_force(call: Call, job: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("precious")
    ended = call("analyze", job, "-o", tmp_path / "mine.html")
    assert (ended.code, (tmp_path / "mine.html").read_text()) == (2, "precious")
    assert "--force" in ended.err
    assert call("analyze", job, "-o", tmp_path / "mine.html", "--force").code == 0
    assert (tmp_path / "mine.html").read_text() != "precious"


def test_report_from_the_json_alone_equals_the_first_one(call: Call, slow_job: Path, tmp_path: Path) -> None:
    for suffix in ("html", "md", "txt"):
        assert call("analyze", slow_job, "-o", tmp_path / f"a.{suffix}", "--json", tmp_path / "r.json", "--force").code == 0
        assert call("report", tmp_path / "r.json", "-o", tmp_path / f"b.{suffix}").code == 0
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_fail_on_names_the_slow_rank(call: Call, slow_job: Path, tmp_path: Path) -> None:
    ended = call("analyze", slow_job, "-o", tmp_path / "r.html", "--json", tmp_path / "r.json", "--fail-on", "minor")
    assert ended.code == 1
    findings = json.loads((tmp_path / "r.json").read_text())["findings"]
    assert next((f["kind"], f["ranks"]) for f in findings if f["severity"] != "info") == ("compute_straggler", [2])
    assert (tmp_path / "r.html").exists()


def test_fail_on_is_quiet_on_a_healthy_job(call: Call, job: Path, tmp_path: Path) -> None:
    assert call("analyze", job, "-o", tmp_path / "r.html", "--fail-on", "minor").code == 0


def test_strict_objects_to_missing_ranks_and_still_writes(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    write_job(folder, Job(world=4, hosts=2, steps=3, missing=[1]))
    assert call("analyze", folder, "-o", tmp_path / "a.html").code == 0
    ended = call("analyze", folder, "-o", tmp_path / "b.html", "--strict")
    assert ended.code == 4
    assert "1 rank(s) missing" in ended.err
    assert (tmp_path / "b.html").exists()


@pytest.mark.parametrize("command", ["analyze", "inspect"])
def test_nothing_usable_is_3_and_says_what_was_found(call: Call, tmp_path: Path, command: str) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    assert call(command, folder).code == 3
    (folder / "nic.log").write_text("NIC statistics:\n     rx_bytes: 1\n")
    (folder / "torn.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [')[:15])
    ended = call(command, folder)
    assert ended.code == 3
    assert "1 × counters or wiring of machines, which tell of no job (nic.log)" in " ".join(ended.err.split())
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["analyze", "nowhere"], "does not exist"),
        (["analyze", "{job}", "-o", "x.pdf"], "known suffixes"),
        (["analyze", "{job}", "-o", "nowhere/x.html"], "does not exist"),
        (["analyze", "{job}", "--job", "7"], "no job number 7"),
        (["analyze", "{job}", "--fail-on", "bad"], "fail-on"),
        (["analyze", "{job}", "--manifest", "nowhere.toml"], "cannot be read"),
        (["inspect", "{job}", "--manifest", "wrong.toml"], "'+24:00' is no time zone"),
        (["export", "{job}", "colectives", "-o", "x.csv"], "did you mean 'collectives'"),
        (["export", "{job}", "collectives", "-o", "x.xlsx"], "known suffixes"),
        (["report", "nowhere.json", "-o", "x.html"], "cannot be read"),
        (["schema", "colectives"], "did you mean 'collectives'"),
        (["schema", "--nonsense"], "nonsense"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_2_and_says_what_to_do(call: Call, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text('[tables."a.csv"]\ntime = {column = "t", zone = "+24:00"}\n')
    ended = call(*(a.format(job=job) for a in args))
    assert ended.code == 2
    assert says in ended.err


def test_report_refuses_what_is_no_result(call: Call, tmp_path: Path) -> None:
    for text in ("", "{", '{"schema": "other/1"}', "[1]"):
        (tmp_path / "r.json").write_text(text)
        ended = call("report", tmp_path / "r.json", "-o", tmp_path / "r.html")
        assert ended.code == 2
        assert "tracelab.findings/1" in ended.err


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "ndjson"])
def test_export_holds_the_same_rows_in_every_format(call: Call, job: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"groups.{suffix}"
    ended = call("export", job, "groups", "-o", target)
    assert (ended.code, ended.out) == (0, f"wrote {target}\n")
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {"parquet": pl.read_parquet, "arrow": pl.read_ipc, "csv": pl.read_csv, "ndjson": pl.read_ndjson}
    frame = readers[suffix](target)
    ranks = [[int(r) for r in v.split()] if isinstance(v, str) else v for v in frame["ranks"].to_list()]
    assert sorted(map(tuple, ranks)) == [(0, 1), (0, 1, 2, 3), (0, 2), (1, 3), (2, 3)]
    assert call("export", job, "groups", "-o", target).code == 2, "an export is not overwritten"


def test_every_table_can_be_exported(call: Call, job: Path, tmp_path: Path) -> None:
    from tracelab.tables import TABLES

    for name in TABLES:
        assert call("export", job, name, "-o", tmp_path / f"{name}.csv").code == 0, name


def test_inspect_tells_the_rank_map(call: Call, job: Path) -> None:
    found = json.loads(call("inspect", job, "--json").out)
    ranks = [(r["rank"], r["host"], r["rank_origin"]) for r in found["ranks"]]
    assert ranks == [(0, "node-0", "content"), (1, "node-0", "content"), (2, "node-1", "content"), (3, "node-1", "content")]
    assert found["missing_ranks"] == []
    assert {i["role"] for i in found["inputs"]} == {"analysed"}
    text = call("inspect", job).out
    assert "4 of 4 ranks" in text


def test_a_hostile_name_reaches_no_terminal(call: Call, job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    shutil.copytree(job, folder)
    (folder / "x\x1b[31m\nred.json").write_text("{")
    for ended in (call("inspect", folder), call("analyze", folder, "-o", tmp_path / "r.html")):
        assert "\x1b" not in ended.out + ended.err


def test_the_manifest_gives_ranks_and_hosts(call: Call, job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    shutil.copytree(job, folder)
    first = min(p.name for p in folder.iterdir())
    (folder / "tracelab.toml").write_text(f'[job]\nname = "nightly"\n[files."{first}"]\nignore = true\n[hosts]\n"node-1" = "rack7"\n')
    found = json.loads(call("inspect", folder, "--json").out)
    assert found["name"] == "nightly"
    assert [i["path"] for i in found["inputs"] if i["role"] == "ignored"] == [first]
    assert {r["host"] for r in found["ranks"] if r["rank"] >= 2} == {"rack7"}
    (folder / "tracelab.toml").write_text('[files."gone.json"]\nrank = 1\n')
    ended = call("inspect", folder)
    assert ended.code == 0
    assert "gone.json: the manifest names a file that is not there" in ended.out
    (folder / "tracelab.toml").write_text("[job]\nwrold_size = 4\n")
    ended = call("inspect", folder)
    assert ended.code == 2
    assert "[job] name, world_size" in ended.err


def test_doctor_tells_versions_and_no_names(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    ended = call("doctor")
    assert ended.code == 0
    assert "polars " in ended.out
    assert "hunter2" not in ended.out
    assert os.uname().nodename not in ended.out.replace("Linux", "")


def test_a_reader_that_leaves_is_no_error() -> None:
    program = [sys.executable, "-c", "from tracelab.cli import main; main()", "schema", "--findings"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_output_on_a_full_disk_is_said() -> None:
    with Path("/dev/full").open("w") as full:
        program = [sys.executable, "-c", "from tracelab.cli import main; main()", "schema"]
        ended = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert "No space left" in ended.stderr


def test_a_terminal_that_knows_few_characters(job: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "20", "TERM": "dumb"}
    ended = subprocess.run(
        [sys.executable, "-c", "from tracelab.cli import main; main()", "inspect", job], env=env, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0
    assert "4 of 4 ranks" in ended.stdout
    assert ended.stderr == ""


def test_the_reasons_come_before_exit_3(call: Call, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "rank0.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    ended = call("analyze", tmp_path / "d")
    assert ended.code == 3
    assert "rank0.json: holds no timed event" in ended.err


def test_report_and_document_need_two_names(call: Call, job: Path, tmp_path: Path) -> None:
    ended = call("analyze", job, "-o", tmp_path / "r.html", "--json", tmp_path / "r.html")
    assert (ended.code, list(tmp_path.iterdir())) == (2, [])


def test_a_linked_directory_keeps_its_name(call: Call, job: Path, tmp_path: Path) -> None:
    (tmp_path / "tuesday").symlink_to(job)
    assert call("analyze", tmp_path / "tuesday").out.splitlines()[-1] == f"wrote {tmp_path / 'tuesday.tracelab.html'}"


def test_a_cache_that_cannot_be_written_is_said(call: Call, job: Path, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    ended = call("inspect", job, "--cache-dir", tmp_path / "blocked")
    assert ended.code == 2
    assert "TRACELAB_CACHE_DIR" in ended.err


def test_colour_only_on_a_terminal(call: Call, slow_job: Path, tmp_path: Path) -> None:
    assert "\x1b[" not in call("analyze", slow_job, "-o", tmp_path / "r.html").out
