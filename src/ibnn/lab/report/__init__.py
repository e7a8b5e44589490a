"""Reports: one self-contained HTML page per experiment, with PNG, PDF and CSV beside it."""

from ibnn.lab.report.overview import write_overview
from ibnn.lab.report.page import ReportError
from ibnn.lab.report.write import find_reports, rebuild, write_report

__all__ = ["ReportError", "find_reports", "rebuild", "write_overview", "write_report"]
