"""Whether the output that a page shows is what the command prints.

A line `...` stands for lines that were left out, `...` within a line for any text. What is measured
on the machine (times, accuracies, learnt lam) may differ; names, settings and counts may not.
"""

import re

MEASURED = [
    (re.compile(pattern, re.M), name)
    for pattern, name in (
        (r"\b(\d+ h \d+ min|\d+ min \d+ s|\d[\d.,]* s)\b", "(time)"),
        (r"\b\d[\d.,]*(?= (images|pieces)/s)", "(speed)"),
        (r"\b\d+\.\d(?= %)", "(percent)"),
        (r"\b\d+\.\d to \d+\.\d\b", "(interval)"),
        (r"\b\d+\.\d+(?= bits per character)|(?<=last )\d+\.\d{3}\b", "(bits)"),
        (r"(?<=lam )-?\d\.\d{3}\b", "(learnt)"),  # one that was given has fewer digits
        (r"(?<=residual=)[\d.e-]+", "(residual)"),
        (r"(?<=in epoch )\d+", "(epoch)"),
        (r"\d+(?= at a time)", "(cores)"),
        (r"^\[\d+/(?=\d+\] )", "[(which)/"),
        (r"(?<=\d\] )digits [^:]+(?=: best)", "(run)"),  # which one ends first
        (r"(?<= )\d+\.\d$", "(seconds)"),  # last column of a table of attacks
    )
]


def difference(shown: str, printed: str) -> str | None:
    """What of the shown output was not printed; None if all of it was, in this order."""
    pieces: list[list[str]] = [[]]
    for line in _lines(shown):
        if line == "...":
            pieces.append([])
        else:
            pieces[-1].append(line)
    lines = _lines(printed)
    place = 0
    for number, piece in enumerate(pieces):
        first, last = number == 0, number == len(pieces) - 1
        places = range(place, len(lines) - len(piece) + 1)
        if first:  # nothing was left out before it
            places = places[:1]
        if last:  # nor after it
            places = [at for at in places if at + len(piece) == len(lines)]
        found = next((at for at in places if _matches(piece, lines[at:])), None)
        if found is None:
            where = "at the beginning" if first else "at the end" if last else f"from line {place}"
            return f"not printed {where}:\n" + "\n".join(piece)
        place = found + len(piece)
    return None


def _matches(shown: list[str], printed: list[str]) -> bool:
    return all(
        re.fullmatch(re.escape(line).replace(r"\.\.\.", ".*"), other)
        for line, other in zip(shown, printed, strict=False)
    )


def _lines(text: str) -> list[str]:
    """Measured numbers by their names; columns, which move with their width, by single blanks."""
    for pattern, name in MEASURED:
        text = pattern.sub(name, text)
    return [re.sub(r" +", " ", line).rstrip() for line in text.strip().splitlines()]
