"""Many runs: those not yet finished are trained here, in processes, as one, or on a cluster."""

from ibnn.lab.progress import duration
from ibnn.lab.runner.display import Display
from ibnn.lab.runner.execution import collect, execute, plan, unmeasured
from ibnn.lab.runner.finished import Run
from ibnn.lab.runner.options import ENGINES, RunnerError
from ibnn.lab.runner.outcome import Event, Outcome, Stopped
from ibnn.lab.runner.run import run_all
from ibnn.lab.runner.timeleft import TimeLeft

__all__ = [
    "ENGINES",
    "Display",
    "Event",
    "Outcome",
    "Run",
    "RunnerError",
    "Stopped",
    "TimeLeft",
    "collect",
    "duration",
    "execute",
    "plan",
    "run_all",
    "unmeasured",
]
