# %% [markdown]
# # A first layer, and what lam does
#
# A standard layer computes `y = W x + b`, every unit by itself. An implicit-bias layer goes one step further: its output `z` solves
#
# ```
# z_i = y_i - lam * mean_k sigma(slope * (z_k - z_i))
# ```
#
# where `sigma` is tanh unless you choose another. So each unit's output depends on where it stands among the others. This page looks at what that does, on numbers small enough to see. It takes a few seconds; everything in it can be pasted into a Python prompt.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import ibnn

torch.manual_seed(0)

# %% [markdown]
# ## From y to z
#
# `ibnn.implicit_bias` is the neuron as a function. The last dimension holds the units that are coupled; all dimensions before it are independent rows. Take one row of 200 units, spread like the outputs of a layer (on the right a fifth as wide, where lam > 0 shows most):

# %%
y = torch.randn(200).sort().values * 0.3

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
pull, push = axes
for lam in (-0.5, -0.2, -0.05):
    pull.plot(y, ibnn.implicit_bias(y, lam), label=f"lam = {lam}")
for lam in (0.05, 0.08, 0.095):
    push.plot(y / 5, ibnn.implicit_bias(y / 5, lam), label=f"lam = {lam}")
pull.plot(y, y, "k:", linewidth=1, label="z = y (lam = 0)")
push.plot(y / 5, y / 5, "k:", linewidth=1, label="z = y (lam = 0)")
pull.set(title="lam < 0: pulled together", xlabel="y", ylabel="z")
push.set(title="lam > 0: pushed apart", xlabel="y")
for panel in axes:
    panel.legend()

# %% [markdown]
# - With **lam < 0** units are pulled towards the crowd: small differences between them shrink, large ones only shift.
# - With **lam > 0** they are pushed apart: small differences grow, and a unit must take a side.
#
# Either way the curve never turns back, so the order of the units is kept, and so is their mean. Nothing here is approximate: `z` is the solution, and the equation can be checked.

# %%
z = ibnn.implicit_bias(y, -0.2)
print(f"mean of y {float(y.mean()):+.6f}, mean of z {float(z.mean()):+.6f}")
print(f"largest error of the equation: {float(ibnn.residual(z, y, -0.2).abs().max()):.1e}")
print(f"steps of Newton's method: {int(ibnn.solve(y, -0.2).steps)}")

# %% [markdown]
# ## How far lam may go
#
# Up to `1 / slope` there is exactly one solution for every input. `slope` (the paper's *p*) is how steep the nonlinearity is; its default is 10.

# %%
print(ibnn.uniqueness_threshold(10.0, ibnn.Uniform(-1)))

# %% [markdown]
# Why there? `z` is the lowest point of an energy. With two units, `y = (d, -d)`, the energy is a curve over half of their distance, and one can watch it: below the threshold it is a bowl, above it the bowl breaks into two, and which of them is found depends on where one starts.

# %%
half = torch.linspace(-0.4, 0.4, 401)
pairs = torch.stack([half, -half], dim=-1)  # 401 rows of two units
target = torch.tensor([0.02, -0.02]).expand_as(pairs)

figure, panel = plt.subplots(figsize=(6, 3.6))
for lam in (-0.2, 0.0, 0.08, 0.2, 0.3):
    energy = ibnn.energy(pairs, target, lam)
    panel.plot(half, energy - energy.min(), label=f"lam = {lam}")
panel.set(xlabel="half the distance of the two units", ylabel="energy above its lowest point")
panel.set_ylim(0, 0.03)
panel.legend()

# %% [markdown]
# Layers keep clear of this by themselves: a learnt lam acts as at most 0.95 of the threshold unless you ask for more (`bounded=False`).
#
# ## As a layer
#
# `ibnn.Linear`, `ibnn.Conv2d` and the others take the arguments of their `torch.nn` parents and a few keywords more. At `lam=0`, the default start, they *are* their parents, bit for bit.

# %%
standard = nn.Linear(4, 16)
layer = ibnn.Linear(4, 16)
layer.load_state_dict(standard.state_dict(), strict=False)
x = torch.randn(8, 4)
print(layer)
print("same as nn.Linear at lam = 0:", torch.equal(layer(x), standard(x)))

# %% [markdown]
# `lam` is a parameter. Its gradient, like those of the weights, is exact: it comes from the equation itself (the implicit function theorem), not from unrolling the iterations. Finite differences agree:


# %%
def loss(lam: float) -> torch.Tensor:
    return ibnn.implicit_bias(y.double(), lam).pow(4).sum()


lam = torch.tensor(-0.2, dtype=torch.float64, requires_grad=True)
loss(lam).backward()
difference = (loss(-0.2 + 1e-5) - loss(-0.2 - 1e-5)) / 2e-5
print(f"exact {float(lam.grad):.8f}, by finite differences {float(difference):.8f}")

# %% [markdown]
# ## What it changes in a network
#
# Three hidden ReLU units make three straight cuts: a standard network fences off a polygon with few corners. Coupled units bend their cuts. To see what three units *can* do, rather than what one lucky start did, train 60 networks at once (one more leading dimension: the function does not mind) and keep the best on the training points. The hidden units are normalized before the output layer, as batch norm would do.

# %%
from ibnn.lab import data

points = data.load("arrows")  # an arrow inside an arrow-shaped ring
x_train, y_train = points.x_train, points.y_train.float()[:, None]
NETWORKS, UNITS, STEPS = 60, 3, 1000


def hidden(x, weights, lam):
    y = torch.einsum("nd,kud->nku", x, weights["hidden"]) + weights["bias"]
    return torch.relu(ibnn.implicit_bias(y, lam))


def logits(units, weights, mean, std):
    units = (units - mean) / (std + 1e-3)
    return (units * weights["head"]).sum(-1) + weights["shift"]


def train_many(lam):
    random = torch.Generator().manual_seed(0)
    weights = {
        "hidden": 1.6 * torch.randn(NETWORKS, UNITS, 2, generator=random),
        "bias": 0.5 * torch.randn(NETWORKS, UNITS, generator=random),
        "head": torch.randn(NETWORKS, UNITS, generator=random),
        "shift": torch.zeros(NETWORKS),
    }
    optimizer = torch.optim.Adam([weight.requires_grad_() for weight in weights.values()])
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=STEPS)
    for _ in range(STEPS):
        batch = torch.randint(len(x_train), (100,), generator=random)
        units = hidden(x_train[batch], weights, lam)
        out = logits(units, weights, units.mean(0), units.std(0))
        loss = nn.functional.binary_cross_entropy_with_logits(out, y_train[batch].expand_as(out))
        optimizer.zero_grad()
        (NETWORKS * loss).backward()
        optimizer.step()
        cycle.step()
    return {name: weight.detach() for name, weight in weights.items()}


# %%
SIDE = 161
axis = torch.linspace(-1.1, 1.1, SIDE)
grid = torch.cartesian_prod(axis, axis)
figure, axes = plt.subplots(1, 2, figsize=(8, 4.4))
for panel, lam in zip(axes, (0.0, -0.5), strict=True):
    weights = train_many(lam)
    units = hidden(x_train, weights, lam)
    mean, std = units.mean(0), units.std(0)
    right = (logits(units, weights, mean, std) > 0) == (y_train > 0)
    accuracy = right.float().mean(0)
    best = int(accuracy.argmax())
    field = logits(hidden(grid, weights, lam), weights, mean, std)[:, best].reshape(SIDE, SIDE).T
    panel.scatter(*x_train.T, s=3, c=points.y_train, cmap="coolwarm", alpha=0.4)
    panel.contour(axis, axis, field, levels=[0.0], colors="k")
    name = "standard" if lam == 0 else f"implicit, lam = {lam}"
    panel.set_title(f"{name}\nbest {accuracy.max():.1%}, median {accuracy.median():.1%}")
    panel.set(xticks=[], yticks=[], aspect="equal")

# %% [markdown]
# The median is in the title for honesty's sake: such boundaries *can* be represented, most starts do not find them. `ibnn run capacity` makes the careful version of this picture, over many lam and slopes, and counts how many standard units it takes to do the same.
#
# Next: [train both neurons on images and compare them fairly](train_and_compare.md).
