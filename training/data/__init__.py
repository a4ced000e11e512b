"""Parallel text: reading, cleaning, augmentation, token shards and batches."""

from __future__ import annotations

import os
from pathlib import Path


def default_data_directory() -> Path:
    """The directory of corpora if none is given."""
    return Path(os.environ.get("TRAINING_DATA", "../shared/data"))
