"""The neuron in networks people use: ResNet-20 and ViT on images, GPT on text.

`amounts` says what is trained and how much, `cost` times a step, `record` is what is kept of a run,
`claims` and `figures` what is said and drawn, `experiment` the experiment itself.
"""
