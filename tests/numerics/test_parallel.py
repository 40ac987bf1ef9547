import threading

import pytest

from surefoot.errors import InputError
from surefoot.numerics.parallel import count_cores, map_threads, prefetch


@pytest.mark.parametrize("count", ["1", "3"])
def test_results_come_in_the_order_of_the_items(monkeypatch, count):
    monkeypatch.setenv("SUREFOOT_THREADS", count)
    assert list(map_threads(lambda item: item**2, range(50))) == [item**2 for item in range(50)]


def test_items_are_asked_for_when_there_is_a_thread_for_them(monkeypatch):
    monkeypatch.setenv("SUREFOOT_THREADS", "2")
    asked, first = [], threading.Event()

    def items():
        for item in range(100):
            asked.append(item)
            yield item

    def slow(item):
        first.wait(60)
        return item

    results = map_threads(slow, items())
    threading.Timer(0.2, first.set).start()
    assert next(results) == 0
    assert len(asked) < 10
    assert list(results) == list(range(1, 100))


def test_an_error_in_a_thread_is_the_callers(monkeypatch):
    monkeypatch.setenv("SUREFOOT_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        list(map_threads(lambda item: 1 / item, [2, 1, 0, 1]))


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(monkeypatch, asked):
    monkeypatch.setenv("SUREFOOT_THREADS", asked)
    with pytest.raises(InputError, match="SUREFOOT_THREADS"):
        count_cores()


def test_the_next_item_is_made_while_one_is_worked_on():
    made = [threading.Event() for _ in range(3)]

    def items():
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in prefetch(items()):
        assert number == 2 or made[number + 1].wait(60)


def test_an_error_while_an_item_is_made_comes_after_the_items_before():
    seen = []
    with pytest.raises(ZeroDivisionError):
        for item in prefetch(1 / number for number in (1, 2, 0, 3)):
            seen.append(item)
    assert seen == [1, 0.5]
