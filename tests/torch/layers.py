# What PyTorch has no module for as Unlatch's layers have it (models/layer.h).
import torch
from torch import nn
from torch.nn import functional

from problems import derived_key, random_bits


class Linear(nn.Linear):
    """Flattens images, but takes each token of a sequence by itself."""

    def forward(self, x):
        return super().forward(x.flatten(1) if x.dim() == 4 else x)


class GlobalAveragePool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3), keepdim=True)


class Dropout(nn.Module):
    """Leaves out what models/dropout.h says, for the seed 0."""

    STREAM = 0x64726F706F7574

    def __init__(self, probability, number):
        super().__init__()
        self.probability, self.number = probability, number
        self.batch = self.first_sample = 0  # of the forward to come

    def forward(self, x):
        batch = derived_key(derived_key(0, self.STREAM), self.batch)
        key = derived_key(batch, self.number)
        kept = [[random_bits(derived_key(key, self.first_sample + n), element) >> 32
                 >= int(self.probability * 2**32) for element in range(x[n].numel())]
                for n in range(len(x))]
        return x * torch.tensor(kept).view_as(x) / (1 - self.probability)


class Residual(nn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Sequential()

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Embedding(nn.Module):
    def __init__(self, vocabulary, tokens, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(tokens, width)

    def forward(self, tokens):
        return self.token(tokens) + self.position(torch.arange(tokens.shape[1]))


class Attention(nn.Module):
    """Queries, keys and values of all heads in one row of a token, to the rows of all heads."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                 for part in qkv.chunk(3, dim=-1)]
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return seen.transpose(1, 2).flatten(-2)


def rounded(network):
    """Weights around those of PyTorch that float32 holds, norms' too, as float64."""
    network.float()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.double()
