"""The verdict: every claim, dataset by dataset, from the CSV files of `docs/results` alone.

`python -m ibnn.lab.report.verdict docs` writes the tables of `docs/verdict*.md` again.
"""
