# The rank processes: started for a list of jobs, listened to, ended when one fails or is late.
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOST_FAILURES = 4  # a start of PyTorch on every rank each


class Ranks:
    """The processes of one run from job `first` on, and the lines that they print."""

    def __init__(self, plan, count, first, folder):
        self.lines = queue.Queue()
        environment = {"GLOO_SOCKET_IFNAME": "lo", **os.environ}
        self.logs = [folder / f"rank-{rank}-from-{first}.log" for rank in range(count)]
        self.processes = []
        for rank, log in enumerate(self.logs):
            with open(log, "w", encoding="utf-8") as errors:
                process = subprocess.Popen(
                    [sys.executable, str(HERE / "pipeline_rank.py"), str(plan), str(rank),
                     str(first)], stdout=subprocess.PIPE, stderr=errors, text=True,
                    env=environment)
            self.processes.append(process)
            threading.Thread(target=self._read, args=(rank, process.stdout), daemon=True).start()

    def _read(self, rank, stream):
        for line in stream:
            self.lines.put((rank, json.loads(line)))
        self.lines.put((rank, None))

    def results_of(self, job, seconds):
        """What each rank says of a job. After a first failure the others get a short while more."""
        results = {}
        end = time.monotonic() + seconds
        while len(results) < len(self.processes):
            try:
                rank, line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if rank in results:
                continue  # the end of a rank that has said why
            if line is None:
                last = self.logs[rank].read_text(encoding="utf-8").strip().splitlines()
                line = {"status": "failed", "why": f"ended: {last[-1] if last else 'no message'}"}
            elif line["job"] != job:
                line = {"status": "failed", "why": f"answered job {line['job']} instead of {job}"}
            results[rank] = line
            if line["status"] == "failed":
                end = min(end, time.monotonic() + 3)
        for rank in range(len(self.processes)):
            results.setdefault(rank, {"status": "failed", "why": "no answer, ended"})
        return results

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def run_all(jobs, ranks, timeout, folder):
    """Yields the results of each job; after a failure the ranks are ended and started anew."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"ranks": ranks, "timeout": timeout, "jobs": jobs}),
                    encoding="utf-8")
    done, failures = 0, 0
    while done < len(jobs):
        if failures == MOST_FAILURES:
            done += 1
            yield {0: {"status": "failed", "why": f"not run after {failures} failures"}}
            continue
        processes = Ranks(plan, ranks, done, folder)
        try:
            healthy = True
            while healthy and done < len(jobs):
                # The start of the interpreters, then every wait of a rank, has its own limit.
                results = processes.results_of(done, 60 + 2 * timeout)
                healthy = all(r["status"] != "failed" for r in results.values())
                done += 1
                yield results
        finally:
            processes.end()
        failures += not healthy
