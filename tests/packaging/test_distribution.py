"""What is built and what an installation gets: sdist from the tree, wheel from the sdist, installed into an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PACKAGES = {"tracelab": "tracelab", "tracelab_parsers": "parsers/tracelab_parsers", "tracelab_reports": "reports/tracelab_reports"}
ENTRY_POINTS = """
from importlib.metadata import entry_points
from pathlib import Path
import tracelab
from tracelab.plugins import parsers, reporters
assert Path(tracelab.__file__).is_relative_to({site!r}), tracelab.__file__
print(sorted(parsers()), sorted(reporters()))
(script,) = entry_points(group="console_scripts", name="tracelab")
assert callable(script.load())
"""


def _run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=root)
    (archive,) = out.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(out, filter="data")
    (tree,) = (p for p in out.iterdir() if p.is_dir())
    return tree


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", sdist / "dist", cwd=sdist)
    (built,) = (sdist / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", target, wheel, cwd=target)
    return target


def _source_files(root: Path) -> set[str]:
    found = set()
    for package, folder in PACKAGES.items():
        files = (f for f in (root / folder).rglob("*") if f.is_file() and "__pycache__" not in f.parts)
        found |= {f"{package}/{f.relative_to(root / folder).as_posix()}" for f in files}
    return found


def test_wheel_holds_the_three_packages_whole_and_nothing_else(root: Path, wheel: Path) -> None:
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert names == _source_files(root)
    assert {f"{p}/py.typed" for p in PACKAGES} <= names


def test_wheel_holds_the_licence_and_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = next(archive.read(n).decode() for n in archive.namelist() if n.endswith("/METADATA"))
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert any(n.endswith("/licenses/LICENSE") for n in archive.namelist())


def test_sdist_can_be_tested(sdist: Path) -> None:
    for needed in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tests/conftest.py", "sample_traces/slow_gpu/truth.json"):
        assert (sdist / needed).is_file(), needed


def test_installation_adds_exactly_three_packages(site: Path) -> None:
    assert {p.name for p in site.iterdir() if not p.name.endswith(".dist-info")} == {*PACKAGES, "bin"}
    assert {p.name for p in (site / "bin").iterdir()} == {"tracelab"}


def test_entry_points_of_the_installation_load(site: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(site)}
    out = _run(sys.executable, "-P", "-c", ENTRY_POINTS.format(site=str(site)), cwd=site, env=env)
    assert "torch-profiler" in out
    assert "html" in out


def test_installed_command_tells_its_version(site: Path) -> None:
    import tracelab

    env = {**os.environ, "PYTHONPATH": str(site)}
    assert tracelab.__version__ in _run(sys.executable, "-P", site / "bin" / "tracelab", "--version", cwd=site, env=env)
