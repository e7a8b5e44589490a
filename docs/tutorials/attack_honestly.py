# %% [markdown]
# # Attack honestly
#
# A robust accuracy is an upper bound: it says that *these* attacks failed, not that all do. Many published defenses fell within weeks because their authors' attack was the weak part. Networks with implicit layers invite one mistake in particular, so this page makes it on purpose, sees it caught, and ends with numbers one can stand behind. Half a minute on one core, with scikit-learn's digits.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import ibnn
from ibnn.lab import data
from ibnn.lab.attacks import PGD, Noise, Transfer, evaluate, fgsm

digits = data.load("digits")
x_train, y_train = digits.x_train.float() / 255, digits.y_train
x_test, y_test = digits.x_test.float()[:200] / 255, digits.y_test[:200]


def trained(lam):
    """A small network, trained with this lam; 0 is the standard neuron."""
    torch.manual_seed(0)
    model = nn.Sequential(
        ibnn.Conv2d(1, 6, 3, padding=1, lam=lam, learn_lam=False),
        nn.ReLU(),
        nn.BatchNorm2d(6),
        nn.Flatten(),
        nn.Linear(6 * 8 * 8, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    random = torch.Generator().manual_seed(0)
    for _ in range(12):
        for batch in torch.randperm(len(x_train), generator=random).split(64):
            loss = nn.functional.cross_entropy(model(x_train[batch]), y_train[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


models = {"standard": trained(0.0), "lam = 0.09": trained(0.09), "lam = -0.2": trained(-0.2)}

# %% [markdown]
# ## The mistake
#
# Differentiating through an implicit layer used to be work, so it is tempting to attack the network's *twin*: the same weights with the implicit bias left out (`ibnn.standard`). That is a transfer attack, and a network can stand up to it simply because it is another network. Here are four attackers of growing knowledge, each allowed to change every pixel by at most `EPS`:

# %%
EPS = 0.08
attackers = {
    "noise": Noise(EPS),
    "twin's gradients": Transfer(PGD(EPS, steps=20)),
    "one step (FGSM)": fgsm(EPS),
    "white-box PGD": PGD(EPS, steps=20),
}


def robust(model, attack):
    return 1 - float(attack(model, x_test, y_test).success.float().mean())


print(f"{'':18}" + "".join(f"{name:>14}" for name in models))
for name, attack in attackers.items():
    row = "".join(f"{robust(model, attack):14.1%}" for model in models.values())
    print(f"{name:18}{row}")

# %% [markdown]
# Compare the rows *within* a column: where the twin's gradients leave a network much better off than its own gradients do, the difference is not robustness, it is a poor attacker. (For the standard network both are the same attack: it is its own twin.) Only the last row compares networks. The layers here have exact input gradients, so there is no excuse for stopping earlier.
#
# ## A curve says more than a point
#
# Accuracy must fall towards zero as eps grows. A curve that levels off shows gradients that lead nowhere, not a robust network.

# %%
figure, panel = plt.subplots(figsize=(6.5, 3.8))
radii = [0.0, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32]
for name, model in models.items():
    values = [100 * robust(model, PGD(max(eps, 1e-9), steps=20)) for eps in radii]
    panel.plot(radii, values, "o-", label=name)
panel.set(xlabel="eps (l_inf)", ylabel="accuracy under PGD, %")
panel.legend()

# %% [markdown]
# ## All of it at once, and checked
#
# `evaluate` runs a list of attacks of different kinds and takes the worst case per image, computes what can be *proven* (a certificate no attack can get below), and then examines itself: eleven checks for the known ways in which such numbers go wrong. On the command line it is `ibnn attack RUN --eps 0.08`.

# %%
found = evaluate(
    models["lam = -0.2"],
    x_test[:100],
    y_test[:100],
    eps=EPS,
    attacks="pgd,apgd-t,fab,square,transfer",
    quick=True,
)
print(found.text())

# %% [markdown]
# How to read it:
#
# - *all in the ball* is the number to quote, with its interval: robust accuracy over 100 images is known to within several points at best.
# - *certified accuracy* is the other bound. The truth lies between the two, and for small networks trained without defense the gap is wide.
# - A check that fails does not mean that the network is bad. It means that the number above it is not to be believed yet.
#
# ## Does a check ever fail?
#
# A check that cannot fail is decoration. So break something: this network rounds its input, which makes its gradients zero almost everywhere, and every attack by gradients is blind.


# %%
class Rounded(nn.Module):
    """The same network behind a staircase."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(torch.round(x * 8) / 8)


blind = evaluate(
    Rounded(models["standard"]),
    x_test[:50],
    y_test[:50],
    eps=EPS,
    attacks="pgd,square",
    quick=True,
)
print(f"robust accuracy {blind.robust_accuracy:.1%}; do not believe it:")
for check in blind.failed:
    print(" ", check)

# %% [markdown]
# What these tools say about the neuron on real datasets is in [robustness](../robustness.md).
#
# Next: [your own coupling and sigma](your_own_parts.md).
