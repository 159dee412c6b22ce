#!/usr/bin/env python3
"""Writes tests/exec/data/transformer_pytorch.txt: what PyTorch makes of the layers of transformers.

Of every case the weights (flat, in the order of the model's parameters), the input, the gradient of
the output, and what PyTorch finds: output, gradient of the input, gradients of the weights; of the
whole network tokens, targets, loss and gradients of the weights; of the one whose head is tied to the
table of tokens the losses and norms of some steps, and the weights that they lead to. Numbers are
float32, computed in float64 from them.
"""
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from layers import Attention, Embedding, Residual, rounded

SAMPLES, TOKENS, WIDTH, HEADS, VOCABULARY = 2, 5, 6, 2, 7
STEPS, RATE, MOMENTUM, DECAY, LARGEST_NORM = 4, 0.05, 0.9, 0.01, 2.0


def block():
    attention = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), Attention(HEADS),
                              nn.Linear(WIDTH, WIDTH))
    mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                        nn.Linear(4 * WIDTH, WIDTH))
    return [Residual(attention), Residual(mlp)]


def embedding():
    return Embedding(VOCABULARY, TOKENS, WIDTH)


def write(out, name, values):
    out.append(f"{name} {values.numel()}")
    out.append(" ".join(f"{v:.9g}" for v in values.detach().flatten().tolist()))


def flat(network, of):
    parts = [of(parameter).flatten() for parameter in network.parameters()]
    return torch.cat(parts) if parts else torch.empty(0)


def case(out, name, network, width=None):
    rounded(network)
    tokens = width is None
    x = torch.randint(VOCABULARY, (SAMPLES, TOKENS)) if tokens else \
        (2 * torch.randn(SAMPLES, TOKENS, width)).double().requires_grad_()
    y = network(x)
    gradient = torch.randn(y.shape, dtype=torch.float32).double()
    y.backward(gradient)
    out.append(f"case {name}")
    write(out, "weights", flat(network, lambda p: p.detach()))
    write(out, "input", x)
    write(out, "output", y)
    write(out, "gradient", gradient)
    write(out, "input_gradient", torch.zeros(SAMPLES, TOKENS) if tokens else x.grad)
    write(out, "weight_gradient", flat(network, lambda p: p.grad))


def new_network():
    return rounded(nn.Sequential(embedding(), *block(), *block(), nn.LayerNorm(WIDTH),
                                 nn.Linear(WIDTH, VOCABULARY, bias=False)))


def whole_network(out):
    network = new_network()
    tokens = torch.randint(VOCABULARY, (SAMPLES, TOKENS))
    targets = torch.randint(VOCABULARY, (SAMPLES, TOKENS))
    logits = network(tokens)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    out.append("case network")
    write(out, "weights", flat(network, lambda p: p.detach()))
    write(out, "input", tokens)
    write(out, "targets", targets)
    write(out, "output", logits)
    write(out, "loss", loss)
    write(out, "weight_gradient", flat(network, lambda p: p.grad))


def tied_network(out):
    """A step takes SAMPLES sequences and clips the norm of their gradient."""
    network = new_network()
    network[-1].weight = network[0].token.weight
    tokens = torch.randint(VOCABULARY, (STEPS, SAMPLES, TOKENS))
    targets = torch.randint(VOCABULARY, (STEPS, SAMPLES, TOKENS))
    out.append("case tied_network")
    write(out, "weights", flat(network, lambda p: p.detach()))
    write(out, "input", tokens)
    write(out, "targets", targets)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM,
                                weight_decay=DECAY)
    losses, norms = [], []
    for x, y in zip(tokens, targets):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(x).flatten(0, 1), y.flatten())
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(network.parameters(), LARGEST_NORM))
        optimizer.step()
        losses.append(loss.detach())
    write(out, "losses", torch.stack(losses))
    write(out, "norms", torch.stack(norms))
    write(out, "trained", flat(network, lambda p: p.detach()))


def main():
    torch.manual_seed(11)
    out = [f"# Written by tests/torch/{Path(__file__).name} with torch {torch.__version__}."]
    case(out, "layer_norm", nn.LayerNorm(WIDTH), WIDTH)
    case(out, "gelu", nn.GELU(), WIDTH)
    case(out, "attention", Attention(HEADS), 3 * WIDTH)
    case(out, "embedding", embedding())
    case(out, "block", nn.Sequential(*block()), WIDTH)
    whole_network(out)
    tied_network(out)
    path = Path(__file__).resolve().parents[1] / "exec" / "data" / "transformer_pytorch.txt"
    path.write_text("\n".join(out) + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
