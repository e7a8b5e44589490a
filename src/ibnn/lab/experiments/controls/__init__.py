"""Controls: would another lateral map give the gain? The plan is docs/verdict-plan.md.

`arms` names what is trained, `record` what is kept of a run, `claims`, `tables` and `figures` what
is said and drawn; `frame` makes reports of them, `experiment`, `variant` and `tuned` are the three
experiments.
"""
