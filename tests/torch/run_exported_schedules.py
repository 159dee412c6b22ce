#!/usr/bin/env python3
"""Runs the CSV files that `unlatch convert` writes in PyTorch's own runtime.

Each schedule that a CSV can say is exported, loaded with _PipelineScheduleRuntime._load_csv and
trained on CPU processes over gloo. The losses of every step must equal those of Unlatch's
back-propagation on the same weights and data to 1e-5, relative; on the scalar chain the last
weights as well. Formats: compute_only (PyTorch adds the messages), compute_comms (the messages are
Unlatch's; nothing averages the gradients, so the script does) and compute_comms with --shards yes;
the last two with --waits yes where this PyTorch knows WAIT_SEND_F.

  python3 tests/torch/run_exported_schedules.py --unlatch build/release/tools/unlatch
      [--ranks 4] [--chunks V] [--microbatches 8] [--steps 3] [--schedule SPEC ...] [--format F ...]

Needs Python 3.10 and the packages torch and numpy (PyTorch's pipelining uses it). Exit codes: 0 all
equal; 1 something differed, failed or was refused; 77 skipped, a package is not installed. ctest
runs it as exported_schedules_in_pytorch, by the interpreter that CMake found:
-DPython3_EXECUTABLE=VENV/bin/python3 names another.
"""
import argparse
import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path

import problems
import rank_processes

SKIPPED = 77
TOLERANCE = 1e-5
NOTES = {
    "[waits]": "this PyTorch wants WAIT_SEND_F, WAIT_SEND_B and WAIT_REDUCE_GRAD in a file with\n"
               "messages; convert wrote them (--waits yes)",
    "[opening]": "this PyTorch opens connections by a message between neighbouring stages, also\n"
                 "where both are on one rank, which gloo cannot send; the script left that one out",
}
HERE = Path(__file__).resolve().parent
SCHEDULES = ["bp", "gpipe", "gpipe:backward=ascending", "1f1b", "interleaved-1f1b", "looped-bfs",
             "zb-h1", "zb-h2", "zb-auto", "zb-auto:limit=2", "interleaved-zb", "zb-v", "v-half",
             "v-min", "dualpipev", "hanayo", "hanayo:waves=2", "dualpipe", "chimera"]
CHUNKS = {"hanayo:waves=2": 4}  # where a schedule of the list does not have its usual number
# Two copies of the model on different ranks: convert must refuse, a CSV cannot say it.
NOT_EXPORTABLE = {"dualpipe", "chimera"}
ONE_PIECE = {"bp"}  # runs a batch in one piece, so that convert refuses --microbatches
# The name here, what PyTorch calls it, further flags of convert, whether REDUCE_GRAD is in it.
FORMATS = {"compute_only": ("compute_only", [], True),
           "compute_comms": ("compute_comms", [], False),
           "comms+shards": ("compute_comms", ["--shards", "yes"], True)}


def read_arguments():
    parser = argparse.ArgumentParser(description="Runs exported CSV schedules in PyTorch.")
    parser.add_argument("--unlatch", required=True, help="the program")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--chunks", type=int, help="stages a rank, where the schedule has a choice")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--schedule", action="append", help="SPEC; again for more (all)")
    parser.add_argument("--format", action="append", choices=FORMATS, help="again for more (all)")
    parser.add_argument("--timeout", type=int, default=60, help="seconds a rank waits for another")
    arguments = parser.parse_args()
    if min(arguments.ranks - 1, arguments.microbatches, arguments.steps, arguments.timeout) < 1:
        parser.error("--ranks must be at least 2, the other numbers at least 1")
    return arguments


def why_skipped():
    """None if PyTorch and its runtime are there."""
    for package in ("torch", "numpy"):  # PyTorch's pipelining unpickles through NumPy
        if importlib.util.find_spec(package) is None:
            return f"the package {package} is not installed"
    import torch.distributed as dist
    if not dist.is_available() or not dist.is_gloo_available():
        return "this torch is built without gloo"
    try:
        from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime  # noqa: F401
    except ImportError:
        import torch
        return f"torch {torch.__version__} has no _PipelineScheduleRuntime"
    return None


def wants_waits(form):
    """Whether this PyTorch takes a file of that format with WAIT_* actions alone."""
    from torch.distributed.pipelining import schedules
    return form == "compute_comms" and hasattr(schedules, "WAIT_SEND_F")


def export(arguments, spec, name, path):
    """Writes the file; (stages, micro-batches) as it says them."""
    form, flags, _ = FORMATS[name]
    chunks = arguments.chunks or CHUNKS.get(spec)
    problems.unlatch(arguments.unlatch, "convert", spec, path, "--ranks", arguments.ranks,
                     *(["--chunks", chunks] if chunks else []),
                     *(["--microbatches", arguments.microbatches] if spec not in ONE_PIECE else []),
                     "--format", form, *flags, *(["--waits", "yes"] if wants_waits(form) else []))
    cells = re.findall(r"\b(\d+)F(\d+)", path.read_text(encoding="utf-8"))
    return 1 + max(int(s) for s, _ in cells), 1 + max(int(m) for _, m in cells)


class Jobs:
    """What is to be run: a job is one file with one network."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.jobs, self.lines, self.problems = [], [], {}

    def problem_files(self, stages, micro_batches):
        key = (stages, micro_batches)
        if key not in self.problems:
            common = (self.arguments.unlatch, stages, micro_batches, self.arguments.steps)
            made = [problems.chain(*common),
                    problems.mlp(*common, self.folder, HERE.parents[1] / "data" / "digits")]
            self.problems[key] = []
            for problem in made:
                path = self.folder / f"{problem['name']}-{stages}-{micro_batches}.json"
                path.write_text(json.dumps(problem), encoding="utf-8")
                self.problems[key].append((problem, path))
        return self.problems[key]

    def add(self, spec, name):
        """One line of the output, with a job a network; whether convert wrote the file."""
        line = {"spec": spec, "format": name, "problems": [], "verdict": None}
        self.lines.append(line)
        path = self.folder / f"{len(self.lines)}.csv"
        forbidden = spec.split(":")[0] in NOT_EXPORTABLE
        try:
            stages, micro_batches = export(self.arguments, spec, name, path)
        except RuntimeError as error:
            line["verdict"] = ("no CSV" if forbidden else "failed", str(error))
            return False
        line["shape"] = (stages // self.arguments.ranks, micro_batches)
        if forbidden:
            line["verdict"] = ("failed", "convert wrote what a CSV cannot say")
            return True
        form, _, reduces = FORMATS[name]
        for problem, file in self.problem_files(stages, micro_batches):
            line["problems"].append(problem)
            self.jobs.append({"csv": str(path), "format": form, "reduces": reduces,
                              "stages": stages, "microbatches": micro_batches,
                              "problem": str(file),
                              "store": str(self.folder / f"store-{len(self.jobs)}")})
        return True


def difference(ours, theirs):
    return abs(ours - theirs) / max(abs(theirs), 1e-300)


def largest_difference(problem, results):
    """Of PyTorch's losses, and last weights where Unlatch gives them, from Unlatch's."""
    losses = next(r["losses"] for r in results.values() if r["losses"] and r["losses"][0])
    largest = 0.0
    for got, expected in zip(losses, problem["losses"], strict=True):
        values = got if len(expected) > 1 else [sum(got) / len(got)]
        largest = max(largest, *map(difference, values, expected))
    if problem["last_weights"]:
        by_stage = {int(s): w for r in results.values() for s, w in r["weights"].items()}
        weights = [w for s in sorted(by_stage) for parameter in by_stage[s] for w in parameter]
        if len(weights) != len(problem["last_weights"]):
            raise ValueError(f"{len(weights)} weights instead of {len(problem['last_weights'])}")
        largest = max(largest, *map(difference, weights, problem["last_weights"]))
    return largest


def reasons(results, status):
    """What the ranks of that status say, rank by rank; empty if there is none.

    A rank that lost its connection is a consequence where another says something else.
    """
    ranks_of = {}
    for rank, result in sorted(results.items()):
        if result["status"] == status:
            ranks_of.setdefault(result["why"], []).append(str(rank))
    causes = {why: ranks for why, ranks in ranks_of.items()
              if "Connection closed by peer" not in why}
    return "; ".join(f"rank {'/'.join(ranks)}: {why}"
                     for why, ranks in (causes or ranks_of).items())


def verdict(line, results_by_job):
    """(status, text) of one line of the output."""
    texts, status, remarks = [], "ok", set()
    # All of the line's results are taken before any is judged, so that the next line gets its own.
    for problem, results in [(problem, next(results_by_job)) for problem in line["problems"]]:
        for bad in ("failed", "refused"):
            whys = reasons(results, bad)
            if whys:
                return bad, f"{problem['name']}: {whys}"
        largest = largest_difference(problem, results)
        texts.append(f"{problem['name']} {largest:.1e}")
        if not largest <= TOLERANCE:
            status = "failed"
        remarks.update(remark for r in results.values() for remark in r["remarks"])
    if wants_waits(FORMATS[line["format"]][0]):
        remarks.add("[waits]")
    return status, "  ".join(texts + sorted(remarks))


def report(lines, ranks, results_by_job):
    """Prints a line each; whether all is well."""
    print(f"{'schedule':25} {'format':13}  P  V  M  {'result':8} largest relative difference")
    well, remarked = True, set()
    for line in lines:
        status, text = line["verdict"] or verdict(line, results_by_job)
        chunks, micro_batches = line.get("shape", ("-", "-"))
        print(f"{line['spec']:25} {line['format']:13} {ranks:2} {chunks:>2} {micro_batches:>2}  "
              f"{status:8} {text}", flush=True)
        well = well and status in ("ok", "no CSV")
        remarked.update(mark for mark in NOTES if mark in text)
    for mark in sorted(remarked):
        print(f"{mark} {NOTES[mark]}")
    return well


def main():
    arguments = read_arguments()
    skipped = why_skipped()
    if skipped:
        print(f"skipped: {skipped}")
        return SKIPPED
    import torch
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, "
          f"{problems.unlatch(arguments.unlatch, '--version').strip()}; {arguments.steps} steps",
          flush=True)
    with tempfile.TemporaryDirectory(prefix="unlatch-torch-") as name:
        folder = Path(name)
        jobs = Jobs(arguments, folder)
        for spec in arguments.schedule or SCHEDULES:
            for form in arguments.format or FORMATS:
                if not jobs.add(spec, form):
                    break  # the same refusal for the other formats
        results = rank_processes.run_all(jobs.jobs, arguments.ranks, arguments.timeout, folder)
        well = report(jobs.lines, arguments.ranks, results)
    print("every loss equals Unlatch's back-propagation to 1e-5" if well
          else "FAILED: see the lines above")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
