#!/usr/bin/env python3
"""Writes tests/exec/data/ten_steps.safetensors: what PyTorch makes of ten training steps.

  python3 tests/torch/ten_steps.py

Of small networks with every kind of layer by SGD with momentum, and of one network by every
optimizer: the tensors before, all weights and all running statistics after steps 1 and 10, and the
loss of each step. Numbers are float32, computed in float64 from float32 weights and data; the
metadata has the networks as model files, rates, Unlatch's specifications of the optimizers and the
version of PyTorch. Networks with batch norms are trained with batches whole and in two parts.
Dropout leaves out what Unlatch's rule says, and the optimizers that PyTorch lacks take the steps of
their papers. Needs Python 3.10 and the package torch.
"""
import copy
import json
import struct
import sys
import zlib
from pathlib import Path

import torch
from torch.nn import functional

from layers import Dropout, rounded
from networks import network_of, statistics_of
from optimizer_steps import keys_of, optimizer_of
from paper_optimizers import PAPER_OPTIMIZERS

BATCHES, SAMPLES, SAVED_STEPS = 10, 4, (1, 10)
IMAGE, CLASSES = [3, 6, 6], 5
TOKENS, VOCABULARY, WIDTH = 6, 9, 6
OPTIMIZER_OF_LAYERS, RATE_ON_IMAGES, RATE_ON_TEXT = "momentum:momentum=0.9", 0.02, 0.2


def layer(kind, name=None, **keys):
    return {"name": name or kind, "kind": kind, **keys}


def conv(name, channels, **keys):
    return layer("convolution", name, channels=channels, **keys)


def norm(name, **keys):
    return layer("batch_norm", name, **keys)


def relu(name):
    return layer("relu", name)


def classifier():
    return layer("linear", "classifier", features=CLASSES)


def stem(channels, **keys):
    """In front of layers that take the mean off, so that a bias would have no gradient."""
    return conv("conv", channels, bias=False, **keys)


def images(*layers):
    return {"input": IMAGE, "layers": [*layers, classifier()]}


def text(*layers):
    embedding = layer("embedding", vocabulary=VOCABULARY, width=WIDTH)
    head = layer("linear", "head", features=VOCABULARY, bias=False)
    return {"tokens": TOKENS, "layers": [embedding, *layers, head]}


def plain_block(channels, stride=1):
    return [conv("conv1", channels, stride=stride, padding=1, bias=False), norm("norm1"),
            relu("relu1"), conv("conv2", channels, padding=1, bias=False), norm("norm2")]


def projection(channels, stride):
    return [conv("projection", channels, kernel=1, stride=stride, bias=False),
            norm("projection_norm")]


def preactivated_block(channels):
    return [norm("norm1"), relu("relu1"), conv("conv1", channels, padding=1, bias=False),
            norm("norm2"), relu("relu2"), conv("conv2", channels, padding=1, bias=False)]


def grouped_block(width, channels, groups, stride):
    return [conv("conv1", width, kernel=1, bias=False), norm("norm1"), relu("relu1"),
            conv("conv2", width, stride=stride, padding=1, groups=groups, bias=False),
            norm("norm2"), relu("relu2"), conv("conv3", channels, kernel=1, bias=False),
            norm("norm3")]


def attention_block():
    return [layer("layer_norm", "norm"), layer("linear", "qkv", features=3 * WIDTH),
            layer("causal_self_attention", "attention", heads=2),
            layer("linear", "out", features=WIDTH)]


def mlp_block():
    return [layer("layer_norm", "norm"), layer("linear", "wide", features=2 * WIDTH),
            layer("gelu"), layer("linear", "out", features=WIDTH)]


NETWORKS = {
    "convolution with bias": images(conv("conv", 5)),
    "convolution without bias": images(conv("conv", 5, bias=False)),
    "convolution with stride": images(conv("conv", 8, stride=2)),
    "convolution with padding": images(conv("conv", 3, kernel=5, padding=2)),
    "convolution with stride and padding": images(conv("conv", 16, stride=2, padding=1)),
    "convolution in groups": images(conv("conv", 6, groups=3)),
    "convolution a group a channel": images(conv("conv1", 8, kernel=1),
                                            conv("conv2", 8, stride=2, padding=1, groups=8)),
    "convolution in groups of whole blocks": images(
        conv("conv1", 16, kernel=1), conv("conv2", 16, stride=2, padding=1, groups=2)),
    "batch norm": images(stem(8, stride=2, padding=1), norm("norm")),
    "batch norm on images": images(norm("norm", momentum=0.3, epsilon=0.01), conv("conv", 4)),
    "relu": images(conv("conv", 4), relu("relu")),
    "max pool": images(conv("conv", 6, padding=1), layer("max_pool")),
    "max pool that overlaps and pads": images(conv("conv", 8, padding=1),
                                              layer("max_pool", kernel=3, padding=1)),
    "global average pool": images(conv("conv", 8), relu("relu"), layer("global_average_pool")),
    "linear": images(layer("linear", features=6)),
    "linear without bias": images(layer("linear", features=6, bias=False)),
    "residual": images(stem(4, stride=2, padding=1),
                       layer("residual", body=plain_block(4)), relu("relu")),
    "residual with projection": images(
        stem(4), layer("residual", body=plain_block(8, stride=2),
                       shortcut=projection(8, stride=2)),
        relu("relu"), layer("global_average_pool")),
    "residual with preactivation": images(
        stem(4, stride=2, padding=1), layer("residual", body=preactivated_block(4)),
        norm("norm"), relu("relu")),
    "residual of grouped convolutions": images(
        stem(4), layer("residual", body=grouped_block(8, 6, groups=4, stride=2),
                       shortcut=projection(6, stride=2)), relu("relu")),
    "dropout": images(conv("conv", 4), layer("dropout", "dropout1", probability=0.3), relu("relu"),
                      layer("linear", features=8), layer("dropout", "dropout2", probability=0.5)),
    "embedding": text(),
    "layer norm": text(layer("layer_norm", epsilon=0.001)),
    "gelu": text(layer("linear", features=8), layer("gelu")),
    "causal self-attention": text(layer("linear", features=3 * WIDTH),
                                  layer("causal_self_attention", heads=2)),
    "transformer block": text(layer("residual", "attention", body=attention_block()),
                              layer("residual", "mlp", body=mlp_block()),
                              layer("layer_norm", "norm")),
}
NETWORK_OF_OPTIMIZERS = images(
    conv("conv", 4, stride=2, padding=1), relu("relu1"), layer("linear", features=6),
    relu("relu2"))

# With the rate of each.
OPTIMIZERS = {
    "sgd": 0.1, "sgd:decay=0.1": 0.1,
    "momentum:momentum=0.9": 0.05, "momentum:momentum=0.5,decay=0.1": 0.05,
    "nesterov:momentum=0.9": 0.05, "nesterov:momentum=0.5,decay=0.1": 0.05,
    "sum:momentum=0.9,s=0.5": 0.05, "sum:momentum=0.5,s=1.5,decay=0.1": 0.05,
    "adagrad": 0.02, "adagrad:lr_decay=0.1,epsilon=0.01,decay=0.1": 0.02,
    "adadelta": 1, "adadelta:rho=0.7,epsilon=0.01,decay=0.1": 1,
    "rmsprop": 0.005, "rmsprop:alpha=0.8,momentum=0.5,centered=yes,epsilon=0.01,decay=0.1": 0.005,
    **{name + keys: 0.02 for name in ("adam", "adamw", "amsgrad", "adamax", "nadam", "radam")
       for keys in ("", ":beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1")},
    "nadam:momentum_decay=0.3": 0.02,
    # Where 1 - beta of a beta in float32 would be far off.
    "adam:beta1=0.9999,beta2=0.99999": 0.02, "adamax:beta1=0.9999": 0.02,
    "nadam:beta2=0.99999": 0.02, "radam:beta1=0.9999,beta2=0.9999": 0.02,
    "lamb:beta2=0.99999": 0.02, "rmsprop:alpha=0.9999": 0.001, "adadelta:rho=0.9999": 1,
    "lars": 0.3, "lars:momentum=0.5,trust=0.1,decay=0.1": 0.1,
    "lamb": 0.02, "lamb:beta1=0.8,beta2=0.9,epsilon=0.01,decay=0.1": 0.02,
}


def made_optimizer(spec, parameters, rate):
    paper = PAPER_OPTIMIZERS.get(spec.partition(":")[0])
    if paper is None:
        return optimizer_of(spec, parameters, rate)
    return paper(parameters, rate, **keys_of(spec))


class TensorFile:
    """Collects tensors, and writes them as float32 in the safetensors format."""

    def __init__(self):
        self.tensors, self.metadata = {}, {}

    def add(self, name, values):
        self.tensors[name] = values.detach().to(torch.float32).clone()

    def write(self, path):
        header, end = {"__metadata__": self.metadata}, 0
        for name, values in self.tensors.items():
            first, end = end, end + 4 * values.numel()
            header[name] = {"dtype": "F32", "shape": list(values.shape),
                            "data_offsets": [first, end]}
        text_of_header = json.dumps(header, separators=(",", ":")).encode()
        text_of_header += b" " * (-len(text_of_header) % 8)
        parts = [struct.pack("<Q", len(text_of_header)), text_of_header]
        parts += [struct.pack(f"<{values.numel()}f", *values.flatten().tolist())
                  for values in self.tensors.values()]
        path.write_bytes(b"".join(parts))


def kept_by(network):
    """What training changes: weights and, of some, statistics."""
    kept = {"weights": dict(network.named_parameters()), "statistics": statistics_of(network)}
    return {kind: tensors for kind, tensors in kept.items() if tensors}


class Trainer:
    def __init__(self):
        self.file = TensorFile()
        inputs = {"images": torch.randn(BATCHES, SAMPLES, *IMAGE, dtype=torch.float32),
                  "labels of images": torch.randint(CLASSES, (BATCHES, SAMPLES)),
                  "text": torch.randint(VOCABULARY, (BATCHES, SAMPLES, TOKENS)),
                  "labels of text": torch.randint(VOCABULARY, (BATCHES, SAMPLES, TOKENS))}
        for name, values in inputs.items():
            self.file.add(name, values)
        self.images = inputs["images"].double(), inputs["labels of images"]
        self.text = inputs["text"], inputs["labels of text"]

    def network(self, name, model):
        """With weights that the file then has."""
        torch.manual_seed(zlib.crc32(name.encode()))
        model = {"name": name, **model}
        inputs, _ = self.data_of(model)
        network = rounded(network_of(model, inputs[0]))
        self.file.metadata[f"model of {name}"] = json.dumps(model)
        for kind, tensors in kept_by(network).items():
            for tensor, values in tensors.items():
                self.file.add(f"{name}/before/{kind}/{tensor}", values)
        return network

    def data_of(self, model):
        return self.text if "tokens" in model else self.images

    def train(self, name, network, optimizer, data, parts=1):
        """Adds to the file, under that name, what the steps make of the network."""
        losses = []
        for step, (inputs, labels) in enumerate(zip(*data)):
            optimizer.zero_grad()
            losses.append(sum(self.backward(network, step, part, inputs, labels, parts)
                              for part in range(parts)))
            optimizer.step()
            if step + 1 in SAVED_STEPS:
                for kind, tensors in kept_by(network).items():
                    flat = [values.flatten() for values in tensors.values()]
                    self.file.add(f"{name}/after {step + 1}/{kind}", torch.cat(flat))
        self.file.add(f"{name}/losses", torch.tensor(losses))

    def backward(self, network, batch, part, inputs, labels, parts):
        """The share of a part in the loss of a batch."""
        size = SAMPLES // parts
        of_part = slice(part * size, (part + 1) * size)
        for module in network.modules():
            if isinstance(module, Dropout):
                module.batch, module.first_sample = batch, part * size
        logits = network(inputs[of_part])
        loss = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                                        labels[of_part].flatten()) / parts
        loss.backward()
        return loss.item()


def train_layers(trainer):
    for name, model in NETWORKS.items():
        network = trainer.network(name, model)
        rate = RATE_ON_TEXT if "tokens" in model else RATE_ON_IMAGES
        trainer.file.metadata[f"rate of {name}"] = str(rate)
        for parts in (1, 2) if statistics_of(network) else (1,):
            trained = copy.deepcopy(network)
            optimizer = made_optimizer(OPTIMIZER_OF_LAYERS, trained.parameters(), rate)
            trainer.train(f"{name}/in {parts}", trained, optimizer, trainer.data_of(model), parts)


def train_by_optimizers(trainer):
    network = trainer.network("network of the optimizers", NETWORK_OF_OPTIMIZERS)
    for spec, rate in OPTIMIZERS.items():
        trainer.file.metadata[f"rate of {spec}"] = str(rate)
        trained = copy.deepcopy(network)
        optimizer = made_optimizer(spec, trained.parameters(), rate)
        trainer.train(spec, trained, optimizer, trainer.images)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)  # of the product that NAdam keeps
    trainer = Trainer()
    trainer.file.metadata["source"] = f"tests/torch/ten_steps.py, PyTorch {torch.__version__}"
    train_layers(trainer)
    train_by_optimizers(trainer)
    trainer.file.write(Path(__file__).resolve().parents[1] / "exec/data/ten_steps.safetensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
