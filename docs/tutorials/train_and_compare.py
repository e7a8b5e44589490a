# %% [markdown]
# # Train both neurons on digits, and compare them fairly
#
# A new layer always looks good in the run in which it happened to win. This page trains a small network with standard and with implicit neurons on scikit-learn's handwritten digits (8 x 8, nothing to download) the way a comparison should be made: same architecture, same first weights, same order of the data, several seeds, and an interval in place of an impression. It takes about half a minute on one core.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import ibnn
from ibnn.lab import data
from ibnn.lab.stats import paired

digits = data.load("digits")
x_train, y_train = digits.x_train.float() / 255, digits.y_train
x_test, y_test = digits.x_test.float() / 255, digits.y_test
print(f"{len(x_train)} images to learn from, {len(x_test)} to judge by")

# %% [markdown]
# ## One architecture, two neurons
#
# The network takes its convolution as an argument, so there is no second copy to keep in step. The order is the paper's: convolution, implicit bias (inside `ibnn.Conv2d`), ReLU, batch norm. The classifier stays standard: its units are the answer.


# %%
def network(convolution):
    return nn.Sequential(
        convolution(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.BatchNorm2d(4),
        convolution(4, 4, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(4 * 4 * 4, 10),
    )


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


print(f"standard {count(network(nn.Conv2d))} parameters, implicit {count(network(ibnn.Conv2d))}")

# %% [markdown]
# The implicit network has one number more per layer, `lam`. It starts at 0, where the layer is its parent exactly; so if both networks get the same weights, they *are* the same network before the first step.
#
# ## A training loop without surprises
#
# There is one thing to know: weight decay pulls lam towards 0, where the neuron does nothing. `ibnn.parameter_groups` takes lam out of it.

# %%
EPOCHS, BATCH, RATE = 10, 64, 0.02


def train(convolution, seed):
    """Test accuracy after each epoch, and the model."""
    torch.manual_seed(seed)
    standard = network(nn.Conv2d)
    model = network(convolution)
    model.load_state_dict(standard.state_dict(), strict=False)  # lam alone is new
    groups = ibnn.parameter_groups(model, lr=RATE, weight_decay=1e-4)
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    order = torch.Generator().manual_seed(seed)
    curve = []
    for _ in range(EPOCHS):
        model.train()
        for batch in torch.randperm(len(x_train), generator=order).split(BATCH):
            loss = nn.functional.cross_entropy(model(x_train[batch]), y_train[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            curve.append(float((model(x_test).argmax(1) == y_test).float().mean()))
    return curve, model


# %%
SEEDS = range(5)
curves = {"standard": {}, "implicit": {}}
for seed in SEEDS:
    curves["standard"][seed], _ = train(nn.Conv2d, seed)
    curves["implicit"][seed], model = train(ibnn.Conv2d, seed)

figure, panel = plt.subplots(figsize=(6.5, 3.8))
for name, color in (("standard", "tab:blue"), ("implicit", "tab:green")):
    runs = torch.tensor(list(curves[name].values())) * 100
    for run in runs:
        panel.plot(range(1, EPOCHS + 1), run, color=color, alpha=0.25, linewidth=1)
    panel.plot(range(1, EPOCHS + 1), runs.mean(0), color=color, label=f"{name}, mean of 5")
panel.set(xlabel="epoch", ylabel="test accuracy, %", ylim=(80, 100))
panel.legend(loc="lower right")

# %% [markdown]
# ## Is there a difference?
#
# Seeds differ more than neurons do, so compare pairs: the difference between the two networks of one seed, and the 95 % interval of its mean. An interval that contains zero means *not decided*, whatever the means look like. (359 test images also set a limit: one image is 0.28 points.)


# %%
def report(what, standard, implicit):
    print(f"{what}: implicit minus standard {paired(implicit, standard).text()}")


last = {name: {seed: run[-1] for seed, run in runs.items()} for name, runs in curves.items()}
whole = {
    name: {seed: sum(run) / len(run) for seed, run in runs.items()} for name, runs in curves.items()
}
report("last epoch", last["standard"], last["implicit"])
report("mean over all epochs", whole["standard"], whole["implicit"])

# %% [markdown]
# Digits are easy and the set is small; what happens on Fashion-MNIST, SVHN and CIFAR-10 is in the [verdict](../verdict.md). The command that made it compares on digits, too, with the paper's network and training: `ibnn run learning-speed --dataset digits`.
#
# ## What did the layers learn?
#
# `effective_lam` is the lam that acts, `last_solve` how the equation was solved in the last forward pass. Look at both before believing any result: a layer whose lam stayed at 0 is a standard layer, and one that did not converge is nothing in particular.

# %%
for name, layer in model.named_modules():
    if isinstance(layer, ibnn.ImplicitLayer):
        threshold = ibnn.uniqueness_threshold(10.0, layer.coupling)
        print(f"layer {name}: lam {layer.effective_lam.item():+.4f} (threshold {threshold:.2f})")
        print(f"         {layer.last_solve}")

# %% [markdown]
# A learnt lam is free to choose its sign, and where accuracy is all that counts it tends to choose the positive one, which sharpens. For robustness it must be negative: fix it (`lam=-0.2, learn_lam=False`). That is the subject of the next tutorial.
#
# Next: [convert a trained network and make it more robust](convert.md).
