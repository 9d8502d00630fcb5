"""Values that are computed once, without a lock between objects."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from threading import Event, Thread

from bdkn.lazy import lazy


@dataclass(frozen=True)
class Square:
    side: float

    @lazy
    def area(self) -> float:
        """The area."""
        COUNTED.append(self.side)
        return self.side**2


COUNTED: list[float] = []


def test_a_value_is_computed_once_for_each_object_and_travels_with_it():
    COUNTED.clear()
    square = Square(3.0)
    assert (square.area, square.area, Square(2.0).area) == (9.0, 9.0, 4.0)
    assert pickle.loads(pickle.dumps(square)).area == 9.0
    assert COUNTED == [3.0, 2.0]
    assert Square.area.__doc__ == "The area."


def test_objects_of_one_class_do_not_wait_for_each_other():
    started, go_on = Event(), Event()

    class Slow:
        def __init__(self, wait: bool) -> None:
            self.wait = wait

        @lazy
        def value(self) -> int:
            if self.wait:
                started.set()
                assert go_on.wait(60)
            return 1

    found: list[int] = []
    waiting, other = Thread(target=lambda: Slow(True).value), Thread(target=lambda: found.append(Slow(False).value))
    waiting.start()
    assert started.wait(60)
    other.start()
    other.join(30)
    done = list(found)
    go_on.set()
    waiting.join()
    other.join()
    assert done == [1]
