"""Runs ``python -m service.ray.data`` twice on a temporary Ray; see ``tests.support.ray_server``.

Prints each exit code, on a line of its own.
"""

from __future__ import annotations

import sys

import ray

from service.ray.data import main
from tests.support.ray_server import start_ray

if __name__ == "__main__":
    start_ray(num_cpus=2)
    try:
        for _ in range(2):
            print(main(), flush=True)
            print("---", file=sys.stderr)
    finally:
        ray.shutdown()
