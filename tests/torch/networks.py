# Networks in PyTorch from what Unlatch's model files say (models/model_file.h). Parameters and
# running statistics lie in the order of ours, under the names of their layers.
import torch
from torch import nn

from layers import Attention, Dropout, Embedding, GlobalAveragePool, Linear, Residual


def convolution(layer, x):
    return nn.Conv2d(x.shape[1], layer["channels"], layer.get("kernel", 3), layer.get("stride", 1),
                     layer.get("padding", 0), groups=layer.get("groups", 1),
                     bias=layer.get("bias", True))


def batch_norm(layer, x):
    return nn.BatchNorm2d(x.shape[1], eps=layer.get("epsilon", 1e-5),
                          momentum=layer.get("momentum", 0.1))


def max_pool(layer, _):
    return nn.MaxPool2d(layer.get("kernel", 2), layer.get("stride", 2), layer.get("padding", 0))


def linear(layer, x):
    features = x[0].numel() if x.dim() == 4 else x.shape[-1]
    return Linear(features, layer["features"], bias=layer.get("bias", True))


class Builder:
    """Builds layers one after the other on an example of their input."""

    def __init__(self):
        self.dropouts = 0
        self.kinds = {
            "convolution": convolution, "batch_norm": batch_norm, "max_pool": max_pool,
            "linear": linear, "dropout": self.dropout, "residual": self.residual,
            "relu": lambda *_: nn.ReLU(), "gelu": lambda *_: nn.GELU(),
            "global_average_pool": lambda *_: GlobalAveragePool(),
            "embedding": lambda layer, x: Embedding(layer["vocabulary"], x.shape[1],
                                                    layer["width"]),
            "layer_norm": lambda layer, x: nn.LayerNorm(x.shape[-1], layer.get("epsilon", 1e-5)),
            "causal_self_attention": lambda layer, _: Attention(layer["heads"]),
        }

    def dropout(self, layer, _):
        self.dropouts += 1
        return Dropout(layer["probability"], self.dropouts - 1)

    def residual(self, layer, x):
        return Residual(self.chain(layer["body"], x), self.chain(layer.get("shortcut", []), x))

    @torch.no_grad()
    def chain(self, layers, x):
        chain = nn.Sequential()
        for layer in layers:
            module = self.kinds[layer["kind"]](layer, x)
            chain.add_module(layer["name"], module)
            x = module.to(torch.float64).eval()(x)
        return chain


def network_of(model, example):
    """In training, on inputs like the example; weights as PyTorch initialises them."""
    return Builder().chain(model["layers"], example).train()


def statistics_of(network):
    """Running means and variances by name."""
    return {name: values for name, values in network.named_buffers()
            if name.endswith(("running_mean", "running_var"))}
