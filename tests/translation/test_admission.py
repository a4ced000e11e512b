from __future__ import annotations

from contextlib import ExitStack

import pytest

from service.translation.admission import Admission
from service.translation.errors import Overloaded, TextTooLarge


def test_admitted_tokens_are_released_after_use() -> None:
    admission = Admission(10)
    with admission.admitted(6), admission.admitted(4):
        assert admission.in_flight == 10
    assert admission.in_flight == 0


def test_tokens_beyond_the_free_capacity_raise_overloaded() -> None:
    admission = Admission(10)
    with admission.admitted(6):
        with pytest.raises(Overloaded), admission.admitted(5):
            pass
        assert admission.in_flight == 6


def test_tokens_beyond_the_total_capacity_raise_text_too_large() -> None:
    with pytest.raises(TextTooLarge, match="11 tokens; at most 10"), Admission(10).admitted(11):
        pass


def test_tokens_are_released_if_the_work_fails() -> None:
    admission = Admission(10)
    with pytest.raises(ZeroDivisionError), admission.admitted(5):
        raise ZeroDivisionError
    assert admission.in_flight == 0


def test_refuse_if_full_raises_overloaded_at_capacity() -> None:
    admission = Admission(5)
    admission.refuse_if_full()
    with admission.admitted(5), pytest.raises(Overloaded):
        admission.refuse_if_full()


def test_small_request_of_another_caller_is_admitted_beyond_the_capacity() -> None:
    admission = Admission(80)
    with admission.admitted(80, "a"):
        with pytest.raises(Overloaded), admission.admitted(1, "a"):
            pass
        with pytest.raises(Overloaded):
            admission.refuse_if_full("a")
        admission.refuse_if_full("b")
        with admission.admitted(10, "b"):
            assert admission.in_flight == 90
            with pytest.raises(Overloaded), admission.admitted(1, "b"):
                pass
        with pytest.raises(Overloaded), admission.admitted(11, "b"):
            pass


def test_callers_together_get_at_most_twice_the_capacity() -> None:
    admission = Admission(80)
    with ExitStack() as stack:
        stack.enter_context(admission.admitted(80, "a"))
        for number in range(8):
            stack.enter_context(admission.admitted(10, f"b{number}"))
        with pytest.raises(Overloaded), admission.admitted(1, "c"):
            pass
    assert admission.in_flight == 0
