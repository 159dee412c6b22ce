"""The parts of gpu_check: each yields its rows one by one, so that a part which fails, or whose
time is over, keeps those it has."""
import functools
import json
import os
import re
import shutil
import statistics
import sys

from gpu_programs import (WITH_MICRO_BATCHES, Failed, Missing, NoTime, Refused, distance,
                          weights_of)

SCHEDULES = ("bp", "gpipe", "1f1b", "ddg", "fr", "fdg", "dsp")
IMAGES = "synthetic:3x32x32"
# Another order of the sums than on the CPU, 20 steps with momentum on top.
MOST_DISTANCE = 5e-3
# 8 small steps: at a rate of 0.05 the least difference grows tenfold in two.
MOST_OF_RESNET20 = 1e-3


def row(name, text, status="ok", **numbers):
    return {"name": name, "status": status, "text": text, **numbers}


def attempt(name, work):
    """The row that work() makes of its results, or what the program said against it."""
    try:
        return work()
    except Refused as error:
        return row(name, f"{error}", "refused")
    except (Failed, Missing) as error:
        return row(name, f"{error}", "failed")


def checked(name, holds, text, **numbers):
    return row(name, text, "ok" if holds else "failed", **numbers)


# ---- is it right ---------------------------------------------------------------------------------

def tests(programs):
    """The tests that need a device, one row each."""
    for name in ("cuda_streams_test", "cuda_test"):
        yield from rows_of_tests(programs, name)


def rows_of_tests(programs, name):
    over = None
    try:
        found = programs.call(name)
        out, code = found.out, found.code
    except NoTime as error:
        out, code, over = error.out, 0, error
    broken = 0
    output = []
    for line in out.splitlines():
        match = re.match(r"\[ +(OK|FAILED|SKIPPED) +\] (\w+\.\w+) \((\d+) ms\)", line)
        if re.match(r"\[ RUN ", line):
            output = []
        elif match is None:
            output.append(line)
        elif match[1] == "FAILED":
            broken += 1
            print("\n".join([f"-- {match[2]}", *output[:40]]))
            yield row(match[2], (output or [""])[0].strip(), "failed", ms=int(match[3]))
        else:
            skipped = match[1] == "SKIPPED"
            text = output[-1].strip() if skipped and output else f"{match[3]} ms"
            yield row(match[2], text, "skipped" if skipped else "ok", ms=int(match[3]))
    if over is not None:
        raise over
    if "[ RUN " not in out or (code != 0 and broken == 0):
        raise Failed(f"{name}: exit {code}: {found.error()}")


def refusals(programs):
    """Case O40: device lists that cannot work, and the ones that can."""
    def refused(name, device, share, *words):
        found = programs.call("unlatch", "train", "--schedule", "bp", "--stages", "4", "--model",
                              "lenet", "--data", "digits", "--steps", "2", "--device", device,
                              "--share-device", share)
        lines = found.err.strip().splitlines()
        good = found.code == 2 and all(word in found.error() for word in words)
        return checked(name, good, lines[-1] if lines else f"exit {found.code}, no message")

    yield refused("4 ranks, not shared", "cuda", "no", "0, 1, 2, 3", "--share-device")
    saved = {where: programs.file(f"shared_{where}") for where in ("cpu", "cuda")}

    def shared():
        for where, path in saved.items():
            programs.train("bp", 4, "--steps", "20", "--save", path, device=where)
        far = distance(weights_of(saved["cuda"]), weights_of(saved["cpu"]))
        return checked("4 ranks, shared", far <= MOST_DISTANCE,
                       f"runs; weights {far:.1e} from the CPU's", distance=far)

    yield attempt("4 ranks, shared", shared)
    far_off = programs.call("unlatch", "train", "--schedule", "bp", "--stages", "1", "--model",
                            "lenet", "--data", "digits", "--steps", "2", "--device", "cuda:4096")
    count = re.search(r"CUDA counts (\d+)", far_off.err)
    if count is None:
        yield row("device of index n", far_off.error(), "failed")
        return
    n = int(count[1])
    yield refused("device of index n", f"cuda:{n}", "yes", f"no device {n}", f"counts {n}")
    if n < 2:
        yield row("devices 1,0", "there is one device", "skipped")
        return

    def two():
        ms = programs.train("bp", 2, "--steps", "20", device="cuda:1,0", share=False)["step_ms"]
        return row("devices 1,0", f"runs; {ms:.3f} ms a step")

    yield attempt("devices 1,0", two)


def repeats(programs):
    """Case O42: the same bits every time, and nearly the same on another number of ranks."""
    def weights(name, ranks):
        path = programs.file(name)
        programs.train("1f1b", ranks, "--steps", "20", "--save", path)
        return weights_of(path)

    def same():
        runs = [weights(f"run_{n}", 2) for n in range(5)]
        differ = sum(run != runs[0] for run in runs)
        return checked("5 runs on 2 ranks", differ == 0,
                       f"{differ} of 4 differ from the first" if differ else "the same bits")

    def near():
        far = distance(weights("run_1_rank", 1), weights_of(programs.file("run_0")))
        return checked("1 rank against 2", far <= 1e-5, f"weights {far:.1e} apart", distance=far)

    yield attempt("5 runs on 2 ranks", same)
    yield attempt("1 rank against 2", near)


def beside_the_cpu(programs, name, schedule, ranks, steps, most=MOST_DISTANCE, **network):
    """A row: the same run on the CPU and on the device."""
    paths, found = {}, {}
    for where in ("cpu", "cuda"):
        paths[where] = programs.file(f"weights_{where}")
        found[where] = programs.train(schedule, ranks, "--steps", f"{steps}", "--partition",
                                      "uniform", "--save", paths[where], device=where, **network)
    far = distance(weights_of(paths["cuda"]), weights_of(paths["cpu"]))
    cpu, gpu = found["cpu"]["step_ms"], found["cuda"]["step_ms"]
    return checked(name, far <= most,
                   f"cpu {cpu:.3f} ms, gpu {gpu:.3f} ms a step; weights {far:.1e} apart",
                   cpu_ms=cpu, gpu_ms=gpu, distance=far)


def digits(programs):
    """Every schedule against the CPU."""
    for ranks in (1, 2, 4):
        for schedule in SCHEDULES:
            name = f"{schedule} on {ranks}"
            yield attempt(name, lambda: beside_the_cpu(programs, name, schedule, ranks, 20))


def resnet20(programs):
    """Every schedule trains the larger network, and a few steps give the CPU's weights."""
    for schedule in SCHEDULES:
        name = f"{schedule}, weights"
        yield attempt(name, lambda: beside_the_cpu(programs, name, schedule, 2, 8, MOST_OF_RESNET20,
                                                   model="resnet20", data=IMAGES, lr=0.001))
    for ranks in (1, 2, 4):
        for schedule in SCHEDULES:
            name = f"{schedule} on {ranks}"

            def work():
                found = programs.train(schedule, ranks, "--steps", "60", model="resnet20",
                                       data=IMAGES)
                loss = found["train_loss"]
                return checked(name, loss is not None,
                               f"{found['step_ms']:.3f} ms a step, loss {loss}, accuracy "
                               f"{found['test_accuracy']:.3f}",
                               step_ms=found["step_ms"], loss=loss,
                               accuracy=found["test_accuracy"])

            yield attempt(name, work)


# ---- options -------------------------------------------------------------------------------------

def options(programs):
    """Options of a device, one by one, beside a run without them."""
    @functools.lru_cache(maxsize=None)
    def time_of(*more):
        return programs.train("1f1b", 2, "--steps", "60", *more, model="resnet20",
                              data=IMAGES)["step_ms"]

    def beside(name, *more):
        other, plain = time_of(*more), time_of()
        return row(name, f"{other:.3f} ms a step, {plain:.3f} without", step_ms=other,
                   without_ms=plain)

    for name, *more in (("tf32", "--precision", "tf32"), ("cuda graph", "--cuda-graph", "yes"),
                        ("transport peer", "--transport", "peer"),
                        ("transport nccl", "--transport", "nccl")):
        yield attempt(name, lambda: beside(name, *more))

    def accuracy(name, *more):
        found = programs.train("1f1b", 2, "--epochs", "5", *more)["test_accuracy"]
        return row(name, f"accuracy {found:.3f} after 5 epochs of the digits", accuracy=found)

    yield attempt("fp32", lambda: accuracy("fp32"))
    for kind in ("bf16", "fp16"):
        yield attempt(kind, lambda: accuracy(kind, "--precision", kind))


# ---- how fast ------------------------------------------------------------------------------------

def predicted(programs):
    """What the simulator makes of a profile of the device, beside what a run takes."""
    profile = programs.file("profile.json")

    def measure():
        programs.unlatch("profile", "--device", "cuda", "--model", "resnet20", "--data", IMAGES,
                         "--batch-size", "16,64", "--optimizer", "momentum:momentum=0.9", "--save",
                         profile)
        return row("profile", "made")

    yield attempt("profile", measure)
    if not os.path.exists(profile):
        return
    for schedule in SCHEDULES:
        def work():
            parts = ["--microbatches", "4"] if schedule in WITH_MICRO_BATCHES else []
            simulated = programs.unlatch("simulate", "--profile", profile, "--schedule", schedule,
                                         "--stages", "2", "--batch-size", "64", *parts)
            ms = simulated["steady_state"]["batch_period_ms"]
            run = programs.train(schedule, 2, "--steps", "60", "--profile", profile,
                                 model="resnet20", data=IMAGES)["step_ms"]
            return row(schedule, f"predicted {ms:.3f} ms, measured {run:.3f} ms, "
                       f"{run / ms:.2f} times", predicted_ms=ms, measured_ms=run)

        yield attempt(schedule, work)


def overhead(programs):
    """The executor against bare streams and a CUDA graph; a row a length of the tasks."""
    path = programs.file("overhead.json")
    found = programs.call("bench_cuda_overhead", "--tasks", "400", "--seconds",
                          f"{programs.left_s() * 0.8:.1f}", "--json", path)
    if found.code == 77:
        yield row("executor", found.out.strip(), "skipped")
        return
    if found.code != 0:
        raise Failed(f"bench_cuda_overhead: exit {found.code}: {found.error()}")
    print(found.out)
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    for us in sorted({case["task_us"] for case in result["rows"]}):
        cases = [case for case in result["rows"] if case["task_us"] == us]

        def median(value):
            return statistics.median(value(case) for case in cases)

        def way(name):
            over = "" if us == 0 else f"{median(lambda c: c[name]['over_ideal']):.3f} of ideal, "
            return f"{name} {over}host {median(lambda c: c[name]['host_us_a_task']):.2f} us a task"

        yield row(f"tasks of {us:g} us",
                  "; ".join([way("executor"), way("bare"), way("graph")]) +
                  f"; executor over bare {median(lambda c: c['executor_over_bare']):.3f}, "
                  f"over graph {median(lambda c: c['executor_over_graph']):.3f}", cases=cases)
    if result["left_out"] > 0:
        yield row("left out", f"{result['left_out']} cases had no time", "no time")


def pytorch(programs):
    """One training step beside PyTorch's, on one rank."""
    here = os.path.dirname(os.path.abspath(__file__))
    script = os.path.join(here, "gpu_torch.py")
    for model, keys, data, batch, steps in (
            ("resnet20", "", IMAGES, 64, 60),
            ("resnet50", "", "synthetic:3x224x224,samples=64", 32, 12),
            ("transformer", ":width=256", f"text:{here}", 32, 20)):  # any text will do
        def work():
            ours = programs.train("bp", 1, "--steps", str(steps), model=model + keys, data=data,
                                  batch=batch)["step_ms"]
            found = programs.call(sys.executable, script, model, str(batch), str(steps))
            if found.code == 77:
                return row(model, f"{ours:.3f} ms a step; {found.out.strip()}", "skipped",
                           step_ms=ours)
            if found.code != 0:
                raise Failed(f"PyTorch: {found.error()}")
            theirs = json.loads(found.out)
            return row(model, f"{ours:.3f} ms a step, PyTorch {theirs['torch']} "
                       f"{theirs['step_ms']:.3f} ms, {ours / theirs['step_ms']:.2f} times",
                       step_ms=ours, pytorch_ms=theirs["step_ms"], pytorch=theirs["torch"])

        yield attempt(model, work)


def sanitizer(programs):
    """A small run under NVIDIA's compute-sanitizer."""
    found = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin")
    if found is None:
        yield row("compute-sanitizer", "is not installed", "skipped")
        return
    for tool in ("memcheck", "racecheck"):
        outcome = programs.call(
            found, "--tool", tool, "--error-exitcode", "9", programs.path("unlatch"), "train",
            "--schedule", "1f1b", "--stages", "2", "--microbatches", "2", "--model", "lenet",
            "--data", "digits", "--steps", "2", "--device", "cuda", "--share-device", "yes")
        said = [line for line in outcome.out.splitlines() if line.startswith("=========")]
        text = (said or [outcome.error()])[-1].strip("= ")
        yield checked(tool, outcome.code == 0, f"exit {outcome.code}: {text}")


# Seconds on a modern GPU, of 236 in all; what a part leaves over goes to those after it.
PARTS = ((tests, 32), (refusals, 12), (repeats, 14), (digits, 42), (resnet20, 44), (options, 16),
         (predicted, 20), (overhead, 26), (pytorch, 14), (sanitizer, 16))
