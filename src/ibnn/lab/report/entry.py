"""One report among others, as the `findings.json` in its folder tells it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibnn.lab.experiments.registry import names
from ibnn.lab.files import StrPath
from ibnn.lab.report.page import FINDINGS, read_findings


@dataclass(frozen=True)
class Entry:
    """Where a report is and what it found; the names in `findings` are those of `page.summary`."""

    folder: str
    findings: dict[str, Any]

    @property
    def where(self) -> str:
        """The dataset, and what is unusual about its networks."""
        return ", ".join((self.findings["dataset"], *self.unusual))

    @property
    def unusual(self) -> list[str]:
        """Channels, how lam was found, and seeds, for people, where they were chosen."""
        chosen = {
            "{} channels": self.channels,
            "lam {}": self.findings["lam"],
            "seeds from {}": self.first_seed,
        }
        return [text.format(value) for text, value in chosen.items() if value]

    @property
    def is_smoke(self) -> bool:
        """Whether its numbers mean nothing."""
        return self.findings["preset"] == "smoke"

    @property
    def is_full(self) -> bool:
        """Whether it is the published protocol, and not a part of it."""
        return self.completeness == 2

    @property
    def completeness(self) -> int:
        """2 is the published protocol, 1 has all its images for fewer epochs or with other
        channels, 0 is less."""
        if self.findings["preset"] != "paper":
            return 0
        return 1 if self.findings.get("epochs") or self.channels else 2

    @property
    def channels(self) -> int | None:
        """Of every layer, where they were chosen."""
        return self.findings.get("channels")

    @property
    def first_seed(self) -> int:
        """Above 0 where it is about fresh networks."""
        return self.findings.get("first_seed", 0)

    @property
    def epochs(self) -> str:
        """Of training; several where networks of different kinds have their own."""
        found = [text for name, text in self.findings["settings"] if _last(name) == "Training"]
        return ", ".join(dict.fromkeys(text.partition(" epochs")[0] for text in found))

    @property
    def examples(self) -> str:
        """Of training: a number, or the smallest and the largest."""
        data = dict(self.findings["settings"]).get("Data", "")
        return data.partition(" training")[0].rpartition(", ")[2] if " training" in data else ""


def read_entries(root: StrPath) -> tuple[list[Entry], list[str]]:
    """The reports below a folder, in the order of `ibnn run --help`; and the folders of those that
    another version of ibnn made."""
    found: list[Entry] = []
    outdated: list[str] = []
    for file in sorted(Path(root).glob(f"*/{FINDINGS}")):
        findings = read_findings(file)
        if findings is None:
            outdated.append(file.parent.name)
        else:
            found.append(Entry(file.parent.name, findings))
    known = {name: place for place, name in enumerate(names())}
    found.sort(key=lambda entry: known.get(entry.findings["experiment"], len(known)))
    return found, outdated


def _last(name: str) -> str:
    """Of a setting that belongs to one kind of network ("ViT: Training"), without that."""
    return name.rpartition(": ")[2]
