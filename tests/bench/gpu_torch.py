"""Times a training step of a network in plain PyTorch on a GPU: MODEL BATCH STEPS.

Prints one JSON object; exits with 77 and says why where PyTorch or a device is missing.
"""
import json
import sys
import time

WARM_UP_STEPS = 5


def residual(nn, width_in, width, stride, bottleneck):
    """Convolutions with batch norm beside a shortcut; their sum is cut at zero by the caller."""
    def conv(a, b, kernel, step):
        return [nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(b)]

    if bottleneck:
        out = 4 * width
        body = [*conv(width_in, width, 1, 1), nn.ReLU(), *conv(width, width, 3, stride), nn.ReLU(),
                *conv(width, out, 1, 1)]
    else:
        out = width
        body = [*conv(width_in, width, 3, stride), nn.ReLU(), *conv(width, width, 3, 1)]
    same = stride == 1 and width_in == out
    short = nn.Identity() if same else nn.Sequential(*conv(width_in, out, 1, stride))
    return nn.Sequential(*body), short, out


def resnet(torch, first, blocks, bottleneck, classes):
    """`blocks`: how many of each width, which doubles, as the side of the image halves."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, body, short):
            super().__init__()
            self.body, self.short = body, short

        def forward(self, x):
            return torch.relu(self.body(x) + self.short(x))

    layers, width_in, width = list(first), first[0].out_channels, first[0].out_channels
    for group, count in enumerate(blocks):
        for n in range(count):
            stride = 2 if group > 0 and n == 0 else 1
            body, short, width_in = residual(nn, width_in, width, stride, bottleneck)
            layers.append(Block(body, short))
        width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(width_in, classes))


def images(torch, side):
    """Makes the inputs and labels of a batch."""
    return lambda batch: (torch.randn(batch, 3, side, side), torch.randint(0, 10, (batch,)))


def resnet20(torch):
    nn = torch.nn
    first = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return resnet(torch, first, (3, 3, 3), False, 10), images(torch, 32)


def resnet50(torch):
    nn = torch.nn
    first = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
             nn.MaxPool2d(3, 2, 1)]
    return resnet(torch, first, (3, 4, 6, 3), True, 10), images(torch, 224)


def transformer(torch):
    """Decoder-only on bytes: 4 layers of width 256, 4 heads, windows of 64, an untied head."""
    nn, functional = torch.nn, torch.nn.functional
    layers, width, heads, tokens, vocabulary = 4, 256, 4, 64, 256

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)
            self.position = nn.Parameter(torch.zeros(tokens, width))

        def forward(self, x):
            return self.token(x) + self.position

    class Attention(nn.Module):
        def forward(self, qkv):
            parts = [p.unflatten(-1, (heads, -1)).transpose(1, 2) for p in qkv.chunk(3, dim=-1)]
            seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
            return seen.transpose(1, 2).flatten(-2)

    class Residual(nn.Module):
        def __init__(self, *body):
            super().__init__()
            self.body = nn.Sequential(*body)

        def forward(self, x):
            return x + self.body(x)

    def block():
        return [Residual(nn.LayerNorm(width), nn.Linear(width, 3 * width), Attention(),
                         nn.Linear(width, width)),
                Residual(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                         nn.Linear(4 * width, width))]

    blocks = [part for _ in range(layers) for part in block()]
    network = nn.Sequential(Embedding(), *blocks, nn.LayerNorm(width),
                            nn.Linear(width, vocabulary, bias=False), nn.Flatten(0, 1))
    return network, lambda batch: (torch.randint(vocabulary, (batch, tokens)),
                                   torch.randint(vocabulary, (batch * tokens,)))


def main():
    model, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no CUDA device")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    print(json.dumps({"torch": torch.__version__,
                      "step_ms": step_ms(torch, model, batch, steps, "cuda")}))
    return 0


def step_ms(torch, model, batch, steps, device):
    network, samples = {"resnet20": resnet20, "resnet50": resnet50,
                        "transformer": transformer}[model](torch)
    network.to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    x, y = (part.to(device) for part in samples(batch))
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for step in range(WARM_UP_STEPS + steps):
        if step == WARM_UP_STEPS:
            wait()
            start = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        loss_of(network(x), y).backward()
        optimizer.step()
    wait()
    return (time.monotonic() - start) * 1000 / steps


if __name__ == "__main__":
    sys.exit(main())
