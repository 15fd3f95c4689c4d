"""report.html: one page about a run, or about several, without scripts and without a network."""

from __future__ import annotations

from pathlib import Path

EXTRA = "pip install 'cpgt[figures]'"  # jinja2 and matplotlib


def leave_report(folder: Path) -> str:
    """Write the report of a run that has ended. Returns a line about it.

    The run is over and its numbers are safe, so whatever goes wrong here is reported, not raised.
    """
    try:
        from cpgt.results.report.page import write_report

        return f"report: {write_report(folder)}"
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        return f"report: not made, because {module} is not installed: {EXTRA}"
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        return f"report: not made: {reason}; cpgt report {folder} tries again"
