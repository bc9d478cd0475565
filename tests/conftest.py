from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Workers share the cores: threads of linear algebra that spin on the same ones wait for each other. Read when numpy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]

# The same examples on every run, and none fails for being slow on a busy machine.
settings.register_profile("tracelab", deadline=None, derandomize=True)
settings.load_profile("tracelab")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def test_data() -> Callable[[str], Path]:
    """Finds a folder of real files by name; skips the test where it is absent."""
    data = Path(os.environ.get("TRACELAB_TEST_DATA", ROOT.parent / "shared" / "data"))

    def find(name: str) -> Path:
        path = data / name
        if not path.exists():
            pytest.skip(f"real files are absent: {name} is not in TRACELAB_TEST_DATA ({data})")
        return path

    return find


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests never touch the user's cache, and neither do programs that they start."""
    os.environ["TRACELAB_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
