from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.threads.thread_priority import lower_thread_priority


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is the whole process's elsewhere")
def test_priority_is_lowered_for_a_thread_and_threads_it_starts() -> None:
    def own() -> int:
        return os.nice(0)

    def of_one_started_there() -> int:
        with ThreadPoolExecutor(1) as started:
            return started.submit(own).result()

    before = own()
    with ThreadPoolExecutor(1, initializer=lower_thread_priority) as thread:
        assert thread.submit(own).result() > before
        assert thread.submit(of_one_started_there).result() > before
    assert own() == before
