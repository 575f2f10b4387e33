"""A call in the background: its result, and its error where one asks for it."""

import threading

import pytest

from orchestrator.common.background import Background


def test_the_result_is_that_of_the_call_which_ran_meanwhile():
    go = threading.Event()
    call = Background(lambda value: go.wait(10) and value, 3)
    go.set()
    assert call.result() == 3


def test_an_error_is_raised_where_the_result_is_asked_for():
    with pytest.raises(ValueError, match="no store"):
        Background(_fail).result()


def _fail():
    raise ValueError("no store")
