"""What the paper proves, measured on a trained network: one folder per statement.

    context = theory_checks.context_for(network, dataset)   # any network with implicit layers
    found = theory_checks.run_checks(context, ["solutions", "jacobians"])
    found.sections[0].claims                                # paper says / measured / agrees

`ibnn analyze` makes a page of it.
"""

from ibnn.lab.theory_checks.check import Check, Context, DoesNotApply, Progress, Section
from ibnn.lab.theory_checks.registry import names, register_check
from ibnn.lab.theory_checks.run import CheckResults, TheoryCheckError, context_for, run_checks

__all__ = [
    "Check",
    "CheckResults",
    "Context",
    "DoesNotApply",
    "Progress",
    "Section",
    "TheoryCheckError",
    "context_for",
    "names",
    "register_check",
    "run_checks",
]
