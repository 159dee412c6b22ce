"""Finds the programs that gpu_check runs, and runs them until a deadline.

They lie in a build folder, or in a folder made for another machine: bin/ and lib/.
"""
import glob
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

BUILT = {
    "unlatch": "tools/unlatch",
    "cuda_test": "tests/cuda/cuda_test",
    "cuda_streams_test": "tests/cuda/cuda_streams_test",
    "bench_cuda_overhead": "tests/bench/bench_cuda_overhead",
    "libunlatch_cuda.so": "exec/libunlatch_cuda.so",
}
WITH_MICRO_BATCHES = {"gpipe", "1f1b"}


class NoTime(Exception):
    """The part's time is over; .out is what the program had printed until then."""

    def __init__(self, why, out=""):
        super().__init__(why)
        self.out = out


class Missing(Exception):
    """A program is not there."""


class Refused(Exception):
    """The program does not take the request (exit code 2): it says why."""


class Failed(Exception):
    """The program ended with an error, or its results are wrong."""


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def error(self):
        """The first line that says what is wrong."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        named = [line for line in lines if line.startswith("error:")]
        return (named or lines[-1:] or ["no message"])[0]


class Programs:
    """Runs programs; no one longer than until `deadline`, in the seconds of time.monotonic()."""

    def __init__(self, folder):
        self.folder = folder
        self.deadline = float("inf")
        self.scratch = tempfile.mkdtemp(prefix="gpu_check.")
        self.env = dict(os.environ)
        folders = list(filter(None, self.env.get("UNLATCH_CUDA_PATH", "").split(":")))
        folders += sorted(glob.glob("/usr/local/cuda*/lib64"), reverse=True)
        folders += [f for base in sys.path for f in glob.glob(os.path.join(base, "nvidia/*/lib"))]
        given = self.env.get("LD_LIBRARY_PATH")
        if folders:
            self.env["LD_LIBRARY_PATH"] = ":".join(([given] if given else []) + folders)
        if self.has("libunlatch_cuda.so"):
            self.env.setdefault("UNLATCH_CUDA_LIBRARY", self.path("libunlatch_cuda.so"))

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.scratch, name)

    def path(self, name):
        packed = os.path.join("lib" if name.endswith(".so") else "bin", name)
        for place in (packed, BUILT[name]):
            path = os.path.abspath(os.path.join(self.folder, place))
            if os.path.exists(path):
                return path
        raise Missing(f"{name} is not in {self.folder}")

    def has(self, name):
        try:
            return bool(self.path(name))
        except Missing:
            return False

    def left_s(self):
        return self.deadline - time.monotonic()

    def call(self, *command):
        """Runs a program of this project, by its name, or any other. Throws NoTime."""
        command = [self.path(command[0]) if command[0] in BUILT else command[0], *command[1:]]
        limit = self.left_s()
        if limit <= 0:
            raise NoTime("not begun")
        # A session of its own, so that what the program has started ends with it.
        with subprocess.Popen(command, env=self.env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, start_new_session=True) as process:
            try:
                out, err = process.communicate(timeout=None if limit == float("inf") else limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, _ = process.communicate()
                raise NoTime(f"stopped after {limit:.0f} s: {shlex.join(command)}", out) from None
        return Outcome(process.returncode, out, err)

    def unlatch(self, *arguments):
        """What `unlatch ARGUMENTS --json` prints. Throws Refused and Failed."""
        found = self.call("unlatch", *arguments, "--json")
        if found.code == 2:
            raise Refused(found.error())
        if found.code != 0:
            raise Failed(f"exit {found.code}: {found.error()}")
        return json.loads(found.out)

    def train(self, schedule, ranks, *more, model="lenet", data="digits", batch=64, device="cuda",
              share=True, lr=0.05):
        """What a training run reports, with its step_ms in the steady state."""
        command = ["train", "--schedule", schedule, "--stages", str(ranks), "--model", model,
                   "--data", data, "--batch-size", str(batch), "--lr", str(lr),
                   "--optimizer", "momentum:momentum=0.9"]
        if schedule in WITH_MICRO_BATCHES:
            command += ["--microbatches", "4"]
        if device != "cpu":
            command += ["--device", device]
            if share:
                command += ["--share-device", "yes"]
        result = self.unlatch(*command, *more)
        result["step_ms"] = result["measured"]["steady_state"]["batch_period_ms"]
        return result


def weights_of(path):
    """All floats of a safetensors file, in the order of the file."""
    with open(path, "rb") as file:
        data = file.read()
    header = struct.unpack("<Q", data[:8])[0]
    body = data[8 + header:]
    return struct.unpack(f"<{len(body) // 4}f", body)


def distance(one, other):
    """The largest difference over the largest value; infinite where there is no number."""
    if len(one) != len(other) or any(x != x for x in one):
        return float("inf")
    return max(abs(x - y) for x, y in zip(one, other)) / max(abs(x) for x in other)
