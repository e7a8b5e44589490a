"""Arms with equal seeds: networks that differ in one thing, and what is kept of each by arm."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.stats import Paired, paired, saving
from ibnn.lab.training import RunConfig

STANDARD, IMPLICIT = "standard", "implicit"
NEGATIVE_LAM = -0.2  # of the arms and attacked networks whose lam is fixed below 0


@dataclass(frozen=True)
class Arm:
    """One arm: its name in tables, what it changes in the config of a standard network, and the
    arm it is compared with, where that is another than the standard one."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    against: str | None = None

    def of(self, standard: RunConfig) -> RunConfig:
        """The run of this arm with the seed and everything else of a standard one."""
        return standard.replace(**self.changes)

    @property
    def about(self) -> str:
        """What it changes, by the names of the fields."""
        return ", ".join(f"{name} {value}" for name, value in self.changes.items())


class Kept(Protocol):
    """What is kept of one network."""

    @property
    def arm(self) -> str: ...
    @property
    def seed(self) -> int: ...


R = TypeVar("R", bound=Kept)
Name = TypeVar("Name")


class ByArm(Generic[R]):
    """The networks of several arms, by arm and seed."""

    def __init__(self, records: Iterable[R]):
        self._by_arm: dict[str, dict[int, R]] = {}
        for record in records:
            self._by_arm.setdefault(record.arm, {})[record.seed] = record

    def __iter__(self) -> Iterator[R]:
        return (record for arm in self._by_arm.values() for record in arm.values())

    def arms(self) -> list[str]:
        """Those with at least one network."""
        return list(self._by_arm)

    def of(self, arm: str) -> list[R]:
        """The networks of an arm, by seed."""
        return [record for _, record in sorted(self._by_arm.get(arm, {}).items())]

    def by_seed(self, arm: str, read: Callable[[R], float]) -> dict[int, float]:
        """One number of every network of an arm."""
        return {record.seed: read(record) for record in self.of(arm)}

    def difference(self, arm: str, other: str, read: Callable[[R], float]) -> Paired | None:
        """`arm` minus `other`, pair by pair."""
        return paired(self.by_seed(arm, read), self.by_seed(other, read))

    def saved(self, arm: str, other: str, curve: Callable[[R], Sequence[float]]) -> Paired | None:
        """How many epochs earlier than its twin an arm has the highest value both reach."""
        ours, theirs = ({r.seed: curve(r) for r in self.of(one)} for one in (arm, other))
        epochs = max((len(values) for values in ours.values()), default=0)
        return saving(range(1, 1 + epochs), ours, theirs)


def trained(
    compared: Iterable[tuple[Name, RunConfig]], runs: Iterable[Run]
) -> list[tuple[Name, Run]]:
    """Those of the compared runs that have finished, each with the name of its arm."""
    found = {run.config.identity(): run for run in runs}
    named = ((name, found.get(config.identity())) for name, config in compared)
    return [(name, run) for name, run in named if run is not None]
