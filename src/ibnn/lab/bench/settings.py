"""What a run of the benchmarks measures, and for how long."""

from dataclasses import dataclass

from ibnn.lab.bench import engines

# The sections, and processor time of each in a quick run on one core (2.6 GHz EPYC, 2026).
SECTIONS = {
    "layers": 17.0,
    "peers": 9.0,
    "training": 8.0,
    "growth": 6.0,
    "startup": 10.0,
    "cliffs": 60.0,
    "busy": 20.0,
    "accuracy": 4.0,
}


@dataclass(frozen=True)
class BenchSettings:
    """`quick` measures fewer conditions with fewer repetitions; `only` one section."""

    quick: bool = False
    engine: str = "both"
    only: str | None = None

    def __post_init__(self) -> None:
        if self.only is not None and self.only not in SECTIONS:
            raise ValueError(f"only is {self.only!r}, expected one of {', '.join(SECTIONS)}")
        if self.engine not in (*engines.NAMES, "both"):
            raise ValueError(
                f"engine is {self.engine!r}, expected {', '.join(engines.NAMES)} or both"
            )

    @property
    def sections(self) -> tuple[str, ...]:
        return tuple(SECTIONS) if self.only is None else (self.only,)

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines asked for that this machine has, fastest first."""
        wanted = engines.NAMES if self.engine == "both" else (self.engine,)
        return tuple(name for name in wanted if engines.available(name))

    @property
    def rounds(self) -> tuple[int, int]:
        """Fewest and most repetitions of each measurement."""
        return (3, 5) if self.quick else (5, 15)

    @property
    def seconds(self) -> float:
        """Time given to one group of interleaved measurements, beyond the fewest repetitions."""
        return 0.3 if self.quick else 1.5

    @property
    def reference_rows(self) -> int:
        """Rows of a batch that are held against a dense float64 solve."""
        return 1 if self.quick else 3
