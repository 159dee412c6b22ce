#!/usr/bin/env python3
"""Writes what PyTorch's optimizers make of five weights, for tests/models/torch_optimizers_test.cpp.

  python3 tests/torch/optimizer_steps.py > tests/models/torch_optimizers.txt

One line a case: our SPEC, the rate, the steps taken, the weights after them in float64. The gradient
of weight i at step n, both from 0, is (1 + i) w_i - sin((n + 1) (i + 1)); w_i starts at
cos(i + 1). Needs Python 3.10 and the package torch.
"""
import math

import torch

RATE = 0.05
STEPS = (1, 10)
WEIGHTS = 5


def beta_family(make):
    """For constructors that take betas and eps."""
    def made(parameters, rate, keys, decay):
        betas = keys.pop("beta1", 0.9), keys.pop("beta2", 0.999)
        if "epsilon" in keys:
            keys["eps"] = keys.pop("epsilon")
        if decay is not None:
            keys["weight_decay"] = decay
        return make(parameters, lr=rate, betas=betas, **keys)
    return made


def plain(make, **renamed):
    """For the others; `renamed` gives torch's names of our keys."""
    def made(parameters, rate, keys, decay):
        torch_keys = {renamed.get(key, key): value for key, value in keys.items()}
        return make(parameters, lr=rate, weight_decay=decay or 0, **torch_keys)
    return made


OPTIMIZERS = {
    "sgd": plain(torch.optim.SGD),
    "momentum": plain(torch.optim.SGD),
    "nesterov": plain(lambda *a, **k: torch.optim.SGD(*a, nesterov=True, **k)),
    "adagrad": plain(torch.optim.Adagrad, epsilon="eps"),
    "adadelta": plain(torch.optim.Adadelta, epsilon="eps"),
    "rmsprop": plain(torch.optim.RMSprop, epsilon="eps"),
    "adam": beta_family(torch.optim.Adam),
    "adamw": beta_family(torch.optim.AdamW),
    "amsgrad": beta_family(lambda *a, **k: torch.optim.Adam(*a, amsgrad=True, **k)),
    "adamax": beta_family(torch.optim.Adamax),
    "nadam": beta_family(torch.optim.NAdam),
    "radam": beta_family(torch.optim.RAdam),
}

CASES = [
    "sgd", "sgd:decay=0.1", "momentum:momentum=0.9", "momentum:momentum=0.5,decay=0.1",
    "nesterov:momentum=0.9", "nesterov:momentum=0.5,decay=0.1",
    "adagrad", "adagrad:lr_decay=0.1,epsilon=0.01,decay=0.1",
    "adadelta", "adadelta:rho=0.7,epsilon=0.01,decay=0.1",
    "rmsprop", "rmsprop:alpha=0.8,epsilon=0.01,decay=0.1", "rmsprop:momentum=0.9",
    "rmsprop:centered=yes,alpha=0.8,decay=0.1", "rmsprop:momentum=0.5,centered=yes,epsilon=0.01",
    *(f"{name}{keys}"
      for name in ("adam", "adamw", "amsgrad", "adamax", "nadam", "radam")
      for keys in ("", ":beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1")),
    "nadam:momentum_decay=0.3", "radam:beta2=0.7",
]


def value_of(text):
    return text == "yes" if text in ("yes", "no") else float(text)


def keys_of(spec):
    _, _, items = spec.partition(":")
    return {key: value_of(value)
            for key, value in (item.split("=") for item in items.split(",") if item)}


def optimizer_of(spec, parameters, rate):
    keys = keys_of(spec)
    return OPTIMIZERS[spec.partition(":")[0]](parameters, rate, keys, keys.pop("decay", None))


def weights_after(spec):
    """The weights after each number of steps in STEPS."""
    weights = torch.tensor([math.cos(i + 1) for i in range(WEIGHTS)], dtype=torch.float64)
    weights.requires_grad_()
    optimizer = optimizer_of(spec, [weights], RATE)
    for step in range(max(STEPS)):
        slopes = [(1 + i) * w - math.sin((step + 1) * (i + 1))
                  for i, w in enumerate(weights.tolist())]
        weights.grad = torch.tensor(slopes, dtype=torch.float64)
        optimizer.step()
        if step + 1 in STEPS:
            yield step + 1, weights.tolist()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)  # of the product that NAdam keeps
    print(f"# PyTorch {torch.__version__.split('+')[0]}, tests/torch/optimizer_steps.py")
    for case in CASES:
        for steps, numbers in weights_after(case):
            print(case, RATE, steps, *map(repr, numbers))
