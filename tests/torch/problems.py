# The two small networks that Unlatch trains by back-propagation and PyTorch by each schedule.
# A problem is a dictionary that JSON holds: layers (weight [out][in], bias or None), what follows
# each, the batches, the learning rate, the losses that Unlatch got, its last weights or None.
import gzip
import json
import math
import struct
import subprocess
from pathlib import Path

MASK64 = (1 << 64) - 1
PIXELS = 64
BRIGHTEST = 16


def unlatch(program, *arguments):
    """What the program printed; RuntimeError with its own message if it refused."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"unlatch ended with {done.returncode}")
    return done.stdout


def chain(program, stages, micro_batches, steps):
    """Scalars in double, two weights a stage, a sample a micro-batch.

    GPipe on one stage is plain back-propagation over a batch of M samples; `bp` itself takes the
    scalar chain in batches of one.
    """
    weights = [1.2 + 0.3 * math.sin(2.1 * j + 0.5) for j in range(2 * stages)]
    x = [math.sin(n + 1.0) for n in range(steps * micro_batches)]
    y = [0.5 * math.cos(n) for n in range(steps * micro_batches)]
    rate = 0.25
    method = "bp" if micro_batches == 1 else "gpipe"
    count = [] if micro_batches == 1 else ["--microbatches", micro_batches]
    run = json.loads(unlatch(
        program, "numerics", "--schedule", method, "--stages", 1, *count, "--lr", rate, "--json",
        *(f"--{name}={','.join(map(repr, values))}"
          for name, values in (("weights", weights), ("x", x), ("y", y)))))
    batches = [slice(n * micro_batches, (n + 1) * micro_batches) for n in range(steps)]
    return {"name": "chain", "type": "float64", "activation": "tanh", "activation_last": True,
            "loss": "half_squares", "rate": rate,
            "layers": [{"weight": [[w]], "bias": None} for w in weights],
            "batches": [{"x": [[v] for v in x[b]], "y": [[v] for v in y[b]]} for b in batches],
            "losses": [run["losses"][b] for b in batches], "last_weights": run["final"]}


def mlp(program, stages, micro_batches, steps, folder, digits):
    """A linear layer a stage, ReLU between them, float; 8 digits a micro-batch."""
    rate, batch_size = 0.5, 8 * micro_batches
    model = f"mlp:hidden={'/'.join(['32'] * (stages - 1))}"
    train = ["train", "--schedule", "bp", "--stages", 1, "--model", model, "--data", "digits",
             "--batch-size", batch_size]
    saved, metrics = Path(folder, "initial.safetensors"), Path(folder, "metrics.jsonl")
    # A rate below what changes a float: the weights saved after one step are the initial ones.
    unlatch(program, *train, "--steps", 1, "--lr", "1e-30", "--save", saved)
    unlatch(program, *train, "--steps", steps, "--lr", rate, "--metrics", metrics)
    tensors = read_safetensors(saved)
    layers = [{"weight": tensors[f"linear{n + 1}.weight"], "bias": tensors[f"linear{n + 1}.bias"]}
              for n in range(stages)]
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
    return {"name": "mlp", "type": "float32", "activation": "relu", "activation_last": False,
            "loss": "cross_entropy", "rate": rate, "layers": layers,
            "batches": digit_batches(digits, batch_size, steps),
            "losses": [[loss] for loss in losses], "last_weights": None}


def read_safetensors(path):
    """Tensors by name as nested lists; float of one or two dimensions only."""
    data = Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        values = list(struct.unpack(f"<{(last - first) // 4}f", data[start + first:start + last]))
        columns = entry["shape"][1] if len(entry["shape"]) == 2 else None
        tensors[name] = values if columns is None else [
            values[at:at + columns] for at in range(0, len(values), columns)]
    return tensors


def digit_batches(folder, batch_size, steps):
    """The batches that DataFeed draws with seed 0 (models/dataset.cpp, models/digits.cpp)."""
    with gzip.open(Path(folder, "digits.csv.gz"), "rt") as lines:
        samples = [[int(value) for value in line.split(",")] for line in lines]
    held_out = {int(line) for line in Path(folder, "test_indices.txt").read_text().split()}
    samples = [sample for n, sample in enumerate(samples) if n not in held_out]
    pixels = [value for sample in samples for value in sample[:PIXELS]]
    mean = sum(pixels) / len(pixels)
    deviation = math.sqrt(sum(value * value for value in pixels) / len(pixels) - mean * mean)
    per_epoch = len(samples) // batch_size
    batches = []
    for n in range(steps):
        key = derived_key(derived_key(0, 0x6F72646572), n // per_epoch)
        begin = n % per_epoch * batch_size
        drawn = [samples[permuted(begin + i, len(samples), key)] for i in range(batch_size)]
        batches.append({"x": [[(value - mean) / deviation for value in s[:PIXELS]] for s in drawn],
                        "y": [s[PIXELS] for s in drawn]})
    return batches


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK64
    return x ^ (x >> 31)


def random_bits(key, counter):
    return mix(key + (counter + 1) * 0x9E3779B97F4A7C15 & MASK64)


def derived_key(key, part):
    return mix(random_bits(key, part) ^ 0xD1B54A32D192ED03)


def permuted(index, count, key):
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(6):
            left, right = right, left ^ (random_bits(key + turn & MASK64, right) & mask)
        index = left << half | right
        if index < count:
            return index
