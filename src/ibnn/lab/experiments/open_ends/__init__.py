"""The paper's open ends as options of the neuron, each against the one it changes.

`arms` names the options, `record` is what is kept of a run, `claims` what is said and drawn,
`experiment` the experiment itself.
"""
