from __future__ import annotations

import pytest

from service.translation.admission import Admission
from service.translation.errors import Overloaded, TextTooLarge


def test_what_fits_is_admitted_and_given_back() -> None:
    admission = Admission(10)
    with admission.admitted(6), admission.admitted(4):
        assert admission.in_flight == 10
    assert admission.in_flight == 0


def test_what_does_not_fit_beside_the_others_is_refused_for_a_while() -> None:
    admission = Admission(10)
    with admission.admitted(6):
        with pytest.raises(Overloaded), admission.admitted(5):
            pass
        assert admission.in_flight == 6


def test_what_never_fits_is_refused_by_another_name() -> None:
    with pytest.raises(TextTooLarge, match="11 tokens; at most 10"), Admission(10).admitted(11):
        pass


def test_room_is_given_back_when_the_work_fails() -> None:
    admission = Admission(10)
    with pytest.raises(ZeroDivisionError), admission.admitted(5):
        raise ZeroDivisionError
    assert admission.in_flight == 0


def test_a_full_service_says_so_before_anything_is_measured() -> None:
    admission = Admission(5)
    admission.refuse_if_full()
    with admission.admitted(5), pytest.raises(Overloaded):
        admission.refuse_if_full()
