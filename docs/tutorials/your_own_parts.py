# %% [markdown]
# # Your own coupling and sigma
#
# Two choices make the neuron what it is: *which units are coupled* (the coupling, the weights `w_ik`) and *how* (sigma, the function that is applied to differences). The built-in ones are the paper's and a few more; yours is a class of a few lines, and everything else (solvers, exact gradients, layers, conversion, saving) works with it as it is. A few seconds on one core.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import ibnn

# %% [markdown]
# ## Which units are coupled
#
# First the ones that exist. A row of 64 units with two bumps, and what three couplings make of it at lam = -0.5: each to all (`Uniform`), to a neighborhood (`Window`), or as a matrix says (`Dense`).

# %%
units = 64
y = torch.zeros(units)
y[20:24] = 1.0
y[45] = 0.6

halves = torch.block_diag(torch.ones(32, 32), torch.ones(32, 32)) / 32  # two separate groups
couplings = {
    "Uniform(-1)": ibnn.Uniform(-1),
    "Dense(two groups)": ibnn.Dense(halves),
    "Window(9)": ibnn.Window(9),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 2.9), sharey=True)
for panel, (name, coupling) in zip(axes, couplings.items(), strict=True):
    row = y[None] if name.startswith("Window") else y  # a window wants (channels, positions)
    z = ibnn.implicit_bias(row, -0.5, coupling=coupling).flatten()
    panel.plot(y, color="0.75", drawstyle="steps-mid", label="y")
    panel.plot(z, drawstyle="steps-mid", label="z")
    panel.set(title=name, xlabel="unit")
axes[0].legend()

# %% [markdown]
# Now one of your own: units on a ring, each coupled to its two neighbors. A coupling gives its weights; they must be symmetric and non-negative, since otherwise the equation has no energy and nothing is proven about its solutions (both are checked).


# %%
class Ring(ibnn.Coupling):
    """w_ik = 1/2 for the two neighbors on a ring."""

    def weight(self, dtype=None, units=None):
        here = torch.eye(units[0], dtype=dtype)
        return (here.roll(1, 0) + here.roll(-1, 0)) / 2


ring = Ring()
figure, panel = plt.subplots(figsize=(6.5, 2.9))
panel.plot(y, color="0.75", drawstyle="steps-mid", label="y")
for lam in (-0.1, -0.5, -2.0):
    z = ibnn.implicit_bias(y, lam, coupling=ring)
    panel.plot(z, drawstyle="steps-mid", label=f"z, lam = {lam}")
panel.set(title="Ring", xlabel="unit")
panel.legend()

# %% [markdown]
# How far lam may go above zero depends on the coupling, and is computed from yours:

# %%
for name, coupling in {"Uniform": ibnn.Uniform(-1), "Ring": ring}.items():
    print(
        f"{name}: unique solution up to lam = {float(ibnn.uniqueness_threshold(10.0, coupling)):.3f}"
    )

# %% [markdown]
# ## What is done with a difference
#
# Sigma must be odd and bounded, with slope 1 at 0, and must not decrease (`certified = False` admits one that does, but then nothing is proven). `value` is all that is needed; derivatives come from autograd. With `primitive` (its integral) there is an energy as well. A registered sigma can be named by a string, in layers and in saved models.


# %%
class Softsign(ibnn.Sigma):
    """x / (1 + |x|): still rises where tanh is flat."""

    name = "softsign"

    def value(self, x):
        return x / (1 + x.abs())

    def primitive(self, x):
        return x.abs() - torch.log1p(x.abs())


ibnn.sigma.register(Softsign())

t = torch.linspace(-1, 1, 201)
row = torch.randn(300, generator=torch.Generator().manual_seed(0)).sort().values * 0.4
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for name in ("tanh", "hardtanh", "arctan", "erf", "softsign"):
    axes[0].plot(t, ibnn.sigma.resolve(name).value(10 * t), label=name)
    axes[1].plot(row, ibnn.implicit_bias(row, -0.5, sigma=name))
axes[0].set(title="sigma(10 x)", xlabel="x")
axes[1].set(title="z at lam = -0.5", xlabel="y")
axes[0].legend()

# %% [markdown]
# ## Are the answers right?
#
# The solve reports itself, the residual can be computed independently, and gradients can be compared with finite differences. Three lines that are worth running on any part of your own:

# %%
y = torch.randn(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
solution = ibnn.solve(y, -0.5, coupling=ring, sigma="softsign")
error = ibnn.residual(solution.value, y, -0.5, coupling=ring, sigma="softsign").abs().max()
print(f"converged: {bool(solution.converged.all())}, largest error of the equation {error:.0e}")


def neuron(y):
    return ibnn.implicit_bias(y, -0.5, coupling=ring, sigma="softsign")


print("gradients agree:", torch.autograd.gradcheck(neuron, y.requires_grad_()))

# %% [markdown]
# ## In a network
#
# Layers and `ibnn.convert` take both. The plan of the conversion remembers them by name, so a saved network finds them again.

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
converted = ibnn.convert(model, lam=-0.3, coupling={"linear": ring}, sigma="softsign")
print(converted[0])
x = torch.randn(3, 4)
rebuilt = ibnn.convert(model, plan=converted.conversion.plan)
print("rebuilt from its plan:", torch.equal(rebuilt(x), converted(x)))

# %% [markdown]
# What it costs: a coupling of your own that gives a matrix is solved by the compiled engine (on a CPU, with a built-in sigma). With a sigma of your own no engine solves: the solver sums over all pairs in torch, quadratic in the number of units. [How it works](../how-it-works.md) says what an engine is; [contributing](../contributing.md) lists every kind of part, engines included, that can be added without touching the package.
