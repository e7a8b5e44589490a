"""What can be wrong with data, in words a user can act on."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class DataError(Exception):
    """Missing, damaged or unsuitable data; one line. `problems` lists them all."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def every(jobs: Iterable[Callable[[], T]]) -> list[T]:
    """Does all jobs, then raises one DataError with the problems of all that failed."""
    results: list[T] = []
    problems: list[str] = []
    for job in jobs:
        try:
            results.append(job())
        except DataError as error:
            problems.extend(error.problems)
    if problems:
        raise DataError(*problems)
    return results
