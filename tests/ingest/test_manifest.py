"""`tracelab.toml`: what it may say, and what an error in it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelab.errors import ManifestError
from tracelab.ingest.manifest import Manifest, load_manifest

WHOLE = """
[job]
name = "nightly"
world_size = 16
[files."traces/a.json"]
rank = 3
host = "n1"
[files."old.json"]
ignore = true
[ranks.3]
host = "node-a"
device = 1
[hosts]
"node-a.cluster.local" = "node-a"
[steps]
skip = [0, 1]
[cost]
per_gpu_hour = 2.5
"""


def test_everything_that_it_may_say(tmp_path: Path) -> None:
    (tmp_path / "tracelab.toml").write_text(WHOLE)
    m = load_manifest(tmp_path)
    assert (m.job.name, m.job.world_size) == ("nightly", 16)
    assert (m.files["traces/a.json"].rank, m.files["traces/a.json"].host, m.files["old.json"].ignore) == (3, "n1", True)
    assert (m.ranks[3].host, m.ranks[3].device) == ("node-a", 1)
    assert m.host("node-a.cluster.local") == "node-a"
    assert m.host("other") == "other"
    assert m.steps.skip == [0, 1]
    assert m.cost.per_gpu_hour == 2.5


def test_none_is_an_empty_one(tmp_path: Path) -> None:
    assert load_manifest(tmp_path) == Manifest()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[file]\n", "file"),
        ('[files."a"]\nrnak = 3\n', "rnak"),
        ('[files."a"]\nrank = "x"\n', "rank"),
        ('[files."a"]\nrank = -1\n', ">= 0"),
        ('[files."a"]\nrank = 5000000000\n', "<= 999999"),
        ("[ranks.-2]\nhost = 'a'\n", ">= 0"),
        ("[job]\nworld_size = -3\n", ">= 1"),
        ("[cost]\nper_gpu_hour = nan\n", "per_gpu_hour"),
        ("[cost]\nper_gpu_hour = inf\n", "per_gpu_hour"),
        ("[cost]\nper_gpu_hour = -1.0\n", ">= 0"),
        ("[job\n", "tracelab.toml"),
    ],
)
def test_an_error_names_the_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "tracelab.toml").write_text(text)
    with pytest.raises(ManifestError, match=says):
        load_manifest(tmp_path)


def test_a_manifest_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot be read"):
        load_manifest(tmp_path, tmp_path / "other.toml")
