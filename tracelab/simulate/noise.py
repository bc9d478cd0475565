"""Random numbers by key: what is drawn for one thing does not depend on what else is drawn, so that a run without a fault is the same run."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["generator"]


def generator(seed: int, *key: int | str) -> np.random.Generator:
    """A generator of its own for a key."""
    digest = hashlib.blake2b(repr((seed, *key)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
