# One rank: trains each job's network by the job's CSV in PyTorch's _PipelineScheduleRuntime over
# gloo and prints a line of JSON a job. Started by run_exported_schedules.py: FILE RANK FIRST.
import csv
import datetime
import json
import re
import sys
import traceback

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

LOSSES = {
    "half_squares": lambda output, target: 0.5 * (output - target).square().mean(),
    "cross_entropy": torch.nn.functional.cross_entropy,
}
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


class Stage(PipelineStage):
    """Leaves out the first message to itself, which gloo cannot send.

    Runtimes before WAIT_SEND_F open the connections of neighbouring stages by one, also where both
    are on one rank (at the turn of a V).
    """

    opens_to_itself = False

    def _get_init_p2p_neighbors_ops(self):
        operations = super()._get_init_p2p_neighbors_ops()
        others = [op for op in operations if op.group_peer != self.group_rank]
        self.opens_to_itself = len(others) < len(operations)
        return others


class Refused(Exception):
    """PyTorch did not take the file."""


def message(error):
    """The first line, without the source line that gloo puts before and its advice after."""
    text = " ".join(f"{error}".partition("\n")[0].split())
    text = re.sub(r"^\[[^\]]*\] ", "", text).partition(" This is typically caused")[0]
    return f"{type(error).__name__}: {text}"


def linear(layer, kind):
    weight = torch.tensor(layer["weight"], dtype=kind)
    bias = layer["bias"]
    module = torch.nn.Linear(*reversed(weight.shape), bias=bias is not None, dtype=kind)
    with torch.no_grad():
        module.weight.copy_(weight)
        if bias is not None:
            module.bias.copy_(torch.tensor(bias, dtype=kind))
    return module


def stage_module(problem, stage, stages):
    """The stage's share of the layers, each with its activation."""
    layers, kind = problem["layers"], getattr(torch, problem["type"])
    size = len(layers) // stages
    modules = []
    for n in range(stage * size, (stage + 1) * size):
        modules.append(linear(layers[n], kind))
        if n + 1 < len(layers) or problem["activation_last"]:
            modules.append(ACTIVATIONS[problem["activation"]]())
    return torch.nn.Sequential(*modules)


def own_stages(path, rank):
    """Stages that this rank's line computes: any placement that a file can say."""
    with open(path, newline="", encoding="utf-8") as file:
        cells = ",".join(list(csv.reader(file))[rank])
    return sorted({int(stage) for stage in re.findall(r"\b(\d+)[FBIW]\d+", cells)})


def train(schedule, stages, modules, problem, job):
    """Losses, a list a step, of the micro-batches that this rank computed the loss of."""
    kind = getattr(torch, problem["type"])
    optimizer = torch.optim.SGD([p for m in modules.values() for p in m.parameters()],
                                lr=problem["rate"])
    all_losses = []
    for batch in problem["batches"]:
        optimizer.zero_grad()
        inputs = [torch.tensor(batch["x"], dtype=kind)] if 0 in modules else []
        target = losses = None
        if stages - 1 in modules:
            classes = problem["loss"] == "cross_entropy"
            target = torch.tensor(batch["y"], dtype=torch.int64 if classes else kind)
            losses = []
        schedule.step(*inputs, target=target, losses=losses)
        if not job["reduces"]:  # no REDUCE_GRAD in the file: the sum is still to be averaged
            for module in modules.values():
                for parameter in module.parameters():
                    parameter.grad /= job["microbatches"]
        optimizer.step()
        all_losses.append([loss.item() for loss in losses or []])
    return all_losses


def run(job, problem, rank):
    stages = job["stages"]
    modules = {s: stage_module(problem, s, stages) for s in own_stages(job["csv"], rank)}
    try:
        own = [Stage(module, s, stages, torch.device("cpu")) for s, module in modules.items()]
        schedule = schedules._PipelineScheduleRuntime(own, job["microbatches"],
                                                      loss_fn=LOSSES[problem["loss"]])
        schedule._load_csv(job["csv"], format=job["format"])
    except Exception as refusal:
        raise Refused(message(refusal)) from refusal
    losses = train(schedule, stages, modules, problem, job)
    remarks = ["[opening]"] if any(stage.opens_to_itself for stage in own) else []
    weights = {s: [p.flatten().tolist() for p in m.parameters()] for s, m in modules.items()}
    return {"status": "ok", "remarks": remarks, "losses": losses,
            "weights": weights if problem["last_weights"] else {}}


def attempt(job, rank, plan):
    with open(job["problem"], encoding="utf-8") as file:
        problem = json.load(file)
    dist.init_process_group("gloo", init_method=f"file://{job['store']}", rank=rank,
                            world_size=plan["ranks"],
                            timeout=datetime.timedelta(seconds=plan["timeout"]))
    try:
        result = run(job, problem, rank)
        dist.barrier()  # nobody closes a connection that another still reads from
        return result
    except Refused as refusal:
        return {"status": "refused", "why": str(refusal)}
    finally:
        dist.destroy_process_group()


def main():
    path, rank, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    for number in range(first, len(plan["jobs"])):
        try:
            result = attempt(plan["jobs"][number], rank, plan)
        except Exception as error:
            traceback.print_exc()
            result = {"status": "failed", "why": message(error)}
        print(json.dumps({"job": number, **result}), flush=True)
        if result["status"] == "failed":
            sys.exit(1)


if __name__ == "__main__":
    main()
