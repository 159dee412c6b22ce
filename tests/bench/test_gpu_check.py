"""gpu_check with stand-ins for its programs: what it reports, its exit code and its deadlines."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
JSON = "gpu_check.json"
PARTS = ["tests", "refusals", "repeats", "digits", "resnet20", "options", "predicted", "overhead",
         "pytorch", "sanitizer"]

UNLATCH = r"""#!/bin/sh
[ "$1" = --version ] && echo "unlatch 9.9" && exit 0
refuse() { echo "error: $1" >&2; exit 2; }
device=cpu share=no save= stages=1
for argument; do
  case $previous in
    --device) device=$argument ;;
    --share-device) share=$argument ;;
    --save) save=$argument ;;
    --stages) stages=$argument ;;
  esac
  case $argument in --transport) refuse "unknown flag '$argument'" ;; esac
  previous=$argument
done
case "$FAULT $device" in
  *no_device*\ cuda*) refuse "--device 'cuda': no CUDA device: none here" ;;
  *\ cuda:*) refuse "--device '$device': there is no device ${device#cuda:}; CUDA counts 1 device" ;;
  *\ cuda)
    [ "$share$stages" != no4 ] ||
      refuse "ranks 0, 1, 2, 3 would all be on device 0; allow it with --share-device yes"
    echo "device 0: Stand-in; CUDA 0.0" >&2 ;;
esac
weights=${0%/*}/weights
case "$FAULT $device" in *weights*\ cuda) weights=${0%/*}/other_weights ;; esac
[ -z "$save" ] || cat "$weights" >"$save"
echo '{"measured": {"steady_state": {"batch_period_ms": 3}}, "train_loss": 0.5,
  "steady_state": {"batch_period_ms": 2}, "test_accuracy": 0.75}'
"""

CUDA_TEST = r"""#!/bin/sh
echo "[ RUN      ] OnDevice.First"
echo "[       OK ] OnDevice.First (7 ms)"
case $FAULT in *sleeps*) sleep 60 ;; esac
echo "[ RUN      ] OnDevice.Second"
case $FAULT in *tests*) echo "cuda_test.cpp:1: Failure"
  echo "[  FAILED  ] OnDevice.Second (1 ms)"; exit 1 ;; esac
echo "[       OK ] OnDevice.Second (1 ms)"
"""

STREAMS_TEST = r"""#!/bin/sh
echo "[ RUN      ] StreamReuse.Once"
echo "[       OK ] StreamReuse.Once (3 ms)"
"""

OVERHEAD = r"""#!/bin/sh
case $FAULT in *crash*) kill -SEGV $$ ;; esac
for argument; do
  [ "$previous" != --json ] || json=$argument
  previous=$argument
done
way='{"over_ideal": 1.5, "host_us_a_task": 2.5}'
echo "{\"left_out\": 0, \"rows\": [{\"task_us\": 5, \"executor\": $way, \"bare\": $way,
  \"graph\": $way, \"executor_over_bare\": 1.25, \"executor_over_graph\": 1.75}]}" >"$json"
"""

SANITIZER = '#!/bin/sh\necho "========= ERROR SUMMARY: 0 errors"\n'
NVIDIA_SMI = '#!/bin/sh\necho "Stand-in GPU, 999.9, 1 MiB, 9.0"\n'


def write(path, text, mode=0o755):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    os.chmod(path, mode)


def safetensors(*values):
    return struct.pack("<Q", 2) + b"{}" + struct.pack(f"<{len(values)}f", *values)


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("gpu_check", "gpu_parts.py", "gpu_programs.py", "gpu_torch.py"):
            shutil.copy(os.path.join(HERE, name), self.folder)
        self.fill("bin", "bin", "bin")
        write(self.file("bin/weights"), safetensors(1, 2, 4))
        write(self.file("bin/other_weights"), safetensors(1, 2, 3))
        write(self.file("path/compute-sanitizer"), SANITIZER)
        write(self.file("path/nvidia-smi"), NVIDIA_SMI)
        write(self.file("modules/torch.py"), "raise ImportError('stand-in')")

    def file(self, name):
        return os.path.join(self.folder, name)

    def fill(self, tools, cuda, bench):
        write(self.file(f"{tools}/unlatch"), UNLATCH)
        write(self.file(f"{cuda}/cuda_test"), CUDA_TEST)
        write(self.file(f"{cuda}/cuda_streams_test"), STREAMS_TEST)
        write(self.file(f"{bench}/bench_cuda_overhead"), OVERHEAD)

    def check(self, fault, *arguments):
        """(exit code, standard output, JSON), run in the folder."""
        env = dict(os.environ, FAULT=fault, PYTHONPATH=self.file("modules"),
                   PATH=f"{self.file('path')}:{os.environ['PATH']}")
        done = subprocess.run([sys.executable, self.file("gpu_check"), *arguments], env=env,
                              cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.stderr, "")
        written = arguments[arguments.index("--json") + 1] if "--json" in arguments else JSON
        with open(self.file(written), encoding="utf-8") as file:
            return done.returncode, done.stdout, json.load(file)

    def rows(self, results, part):
        return {row["name"]: row for row in results["parts"][part]["rows"]}

    def statuses(self, results, part):
        return {name: row["status"] for name, row in self.rows(results, part).items()}

    def test_reports_every_part(self):
        code, out, results = self.check("")
        self.assertEqual(code, 0, out)
        self.assertEqual(list(results["parts"]), PARTS)
        self.assertIn("Stand-in GPU, 999.9", out.splitlines()[0])
        self.assertIn("device 0: Stand-in", out.splitlines()[1])
        self.assertIn("unlatch 9.9", out.splitlines()[2])
        self.assertTrue(out.endswith("no time: none; FAILED: none\n"), out[-200:])
        for part in ("tests", "refusals", "repeats", "digits", "resnet20", "overhead"):
            self.assertEqual(results["parts"][part]["status"], "ok", part)
        for part, rows in (("digits", 21), ("resnet20", 28)):
            self.assertEqual(len(self.rows(results, part)), rows)
        self.assertEqual(self.statuses(results, "options"), {
            "tf32": "ok", "cuda graph": "ok", "transport peer": "refused",
            "transport nccl": "refused", "fp32": "ok", "bf16": "ok", "fp16": "ok"})
        self.assertIn("unknown flag", self.rows(results, "options")["transport nccl"]["text"])
        self.assertEqual(len(self.rows(results, "predicted")), 8)
        self.assertIn("1.50 times", self.rows(results, "predicted")["fdg"]["text"])
        self.assertIn("over bare 1.250", self.rows(results, "overhead")["tasks of 5 us"]["text"])
        self.assertEqual(self.statuses(results, "pytorch"), {
            "resnet20": "skipped", "resnet50": "skipped", "transformer": "skipped"})
        self.assertEqual(self.statuses(results, "sanitizer"), {"memcheck": "ok", "racecheck": "ok"})

    def test_goes_on_where_parts_fail(self):
        code, out, results = self.check("weights tests crash")
        self.assertEqual(code, 1, out)
        self.assertTrue(out.endswith("FAILED: tests, refusals, digits, resnet20, overhead\n"), out[-200:])
        self.assertEqual(list(results["parts"]), PARTS)
        second = self.rows(results, "tests")["OnDevice.Second"]
        self.assertEqual((second["status"], second["text"]), ("failed", "cuda_test.cpp:1: Failure"))
        self.assertEqual(self.statuses(results, "refusals")["4 ranks, shared"], "failed")
        self.assertEqual(self.rows(results, "digits")["bp on 2"]["distance"], 0.25)
        self.assertIn("exit -11", self.rows(results, "overhead")["error"]["text"])
        self.assertEqual(results["parts"]["repeats"]["status"], "ok")
        self.assertEqual(results["parts"]["sanitizer"]["status"], "ok")

    def test_a_slow_part_takes_no_time_from_the_others(self):
        begin = time.monotonic()
        code, out, results = self.check("sleeps", "--seconds", "6")
        self.assertLess(time.monotonic() - begin, 6)
        self.assertEqual(code, 0, out)
        self.assertIn("no time: tests; FAILED: none", out)
        self.assertEqual(self.statuses(results, "tests"),
                         {"StreamReuse.Once": "ok", "OnDevice.First": "ok", "time": "no time"})
        self.assertRegex(self.rows(results, "tests")["time"]["text"],
                         "stopped after 1 s: .*cuda_test")
        for part in PARTS[1:5]:
            self.assertEqual(results["parts"][part]["status"], "ok", part)

    def test_says_what_had_no_time_at_all(self):
        code, out, results = self.check("", "--seconds", "0")
        self.assertEqual(code, 0, out)
        self.assertEqual(list(results["parts"]), PARTS)
        for part in PARTS:
            self.assertEqual(self.rows(results, part)["time"]["text"], "not begun", part)

    def test_writes_where_it_is_told_to(self):
        write(self.file(JSON), "before", 0o644)
        _, _, results = self.check("no_device", "--json", "other.json")
        self.assertEqual(results["parts"], {})
        with open(self.file(JSON), encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")
        self.check("no_device")  # takes its place

    def test_refuses_to_run_for_results_that_it_cannot_write(self):
        done = subprocess.run([sys.executable, self.file("gpu_check"), "--json", "none/out.json"],
                              cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--json: ", done.stderr)
        self.assertIn("none/out.json", done.stderr)

    def test_is_skipped_without_a_device(self):
        os.rename(self.file("bin"), self.file("tools"))  # as in a build folder
        code, out, results = self.check("no_device", "--build", self.folder)
        self.assertEqual(code, 77, out)
        self.assertIn("no CUDA device: none here", out)
        self.assertIn("skipped: there is no device to check", out)
        self.assertEqual(results["parts"], {})

    def test_names_a_program_that_is_missing(self):
        os.remove(self.file("bin/cuda_streams_test"))
        code, _, results = self.check("", "--seconds", "0")
        self.assertEqual(code, 1)
        self.assertIn("cuda_streams_test is not in", self.rows(results, "tests")["error"]["text"])


if __name__ == "__main__":
    unittest.main()
