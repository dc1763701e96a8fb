"""Exit codes of a whole evaluation: a peer that fails, a missed goal, output that differs and a step without programs are failures."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import whole_evaluation  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROWS = [{"task": "recall_kv", "index": i, "ids": [1] * 10, "new": 2, "stop": ["."], "stop_ids": [5]} for i in range(4)]
# A peer that answers four questions of each length in so many seconds; "fails": as one whose package is missing.
PEER = """
import json, sys
flags = dict(flag.lstrip("-").split("=", 1) for flag in sys.argv[2:])
seconds = json.load(open(flags["out"] + "/fake.json"))[sys.argv[1]]
for length in flags["lengths"].split(","):
    if seconds == "fails" or (seconds == "fails later" and length == "16"):
        raise ImportError("No module named " + sys.argv[1])
    row = {"length": int(length), "questions": 4, "seconds": 8 if isinstance(seconds, str) else seconds, "reused_tokens": None,
           "answers": [{"text": "a b. c", "new": 3}] * 4}
    open(flags["out"] + "/" + sys.argv[1] + ".jsonl", "a").write(json.dumps(row) + "\\n")
if seconds == "fails at its end":
    raise ImportError("No module named " + sys.argv[1])
"""


def measured(seconds, text="a b", new=3, **more):
    return {"questions": 4, "seconds": seconds, "reused_tokens": 0, "answers": [{"text": text, "new": new}] * 4, **more}


class FaultsTest(unittest.TestCase):
    def faults(self, ours, **peers):
        results = {"varifocal": {"8": ours}, **{peer: {"8": one} for peer, one in peers.items() if one}}
        return whole_evaluation.table_and_faults(results, {8: ROWS}, [8], list(peers), [3, 1.2])[1]

    def test_goals(self):
        self.assertEqual(self.faults(measured(1), loop=measured(3), batching=measured(1.2)), [])
        self.assertIn("2.90 times loop, it must be 3", *self.faults(measured(1), loop=measured(2.9), batching=measured(1.2)))
        self.assertIn("1.19 times batching, it must be 1.2", *self.faults(measured(1), loop=measured(3), batching=measured(1.19)))

    def test_the_best_other_peer_counts_and_helmet_itself_before_the_loop(self):
        self.assertIn("1.10 times vllm", *self.faults(measured(1), loop=measured(3), batching=measured(2), vllm=measured(1.1)))
        self.assertIn("1.10 times vllm", *self.faults(measured(1), loop=measured(3), vllm=measured(1.1), batching=measured(2)))
        self.assertEqual(self.faults(measured(1), loop=measured(2), helmet=measured(3), batching=measured(2)), [])
        self.assertEqual(self.faults(measured(1), helmet=measured(3), loop=measured(2), batching=measured(2)), [])

    def test_what_was_not_measured_is_a_fault(self):
        self.assertIn("batching was not measured", self.faults(measured(1), loop=measured(3), batching=None)[0])
        self.assertIn("the goal of 1.2 times another program was not measured", *self.faults(measured(1), loop=measured(3)))
        self.assertIn("the goal of 3 times HELMET was not measured", *self.faults(measured(1), batching=measured(3)))

    def test_output_must_be_equal(self):
        for theirs in (measured(3, text="x b"), measured(3, new=4)):
            self.assertIn("output is not equal", *self.faults(measured(1), loop=theirs, batching=measured(2)))
        self.assertEqual(self.faults(measured(1), loop=measured(3, text=" a b. and what follows a stop"), batching=measured(2)), [])


class ExitCodeTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "evaluation_peers.py").write_text(PEER)
        for program in ("varifocald", "varifocal"):
            (self.folder / program).touch()
        self.asked = []

    def run_main(self, *flags, **peers):
        """(exit code, what it printed); our side takes a second a length."""
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        (out / "fake.json").write_text(json.dumps(peers))

        def ours(args, model, lengths, asked, out):
            self.asked.append(lengths)
            yield from ((length, measured(1)) for length in lengths)

        printed = io.StringIO()
        fakes = {"HERE": self.folder, "write_model": lambda _, model: model.mkdir(exist_ok=True), "questions": lambda *_: ROWS, "ask_varifocal": ours}
        with mock.patch.multiple(whole_evaluation, **fakes), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                code = whole_evaluation.main([f"--programs={self.folder}", f"--out={out}", "--device=cpu", "--shape=tiny", "--lengths=8,16",
                                              "--questions=4", "--seconds=60", f"--peers={','.join(peers)}", *flags])
            except SystemExit as ended:
                code = ended.code
        return code, printed.getvalue()

    def test_all_goals_met(self):
        code, text = self.run_main(loop=4, batching=2)
        self.assertEqual(code, 0, text)
        self.assertIn("| 16 | batching | 4 | 3.00 (ours 3.00) | 40, unknown | 7,200 | 2.00 times | 100%, 100% |", text)

    def test_a_failed_peer(self):
        for when in ("fails at its end", "fails"):
            (self.folder / "out/results.json").unlink(missing_ok=True)
            code, text = self.run_main(loop=4, batching=when)
            self.assertEqual(code, 1, text)
            self.assertIn("batching failed: ImportError: No module named batching", text)

    def test_a_missed_goal(self):
        self.assertEqual(self.run_main(loop=2, batching=2)[0], 1)

    def test_a_goal_that_is_not_judged(self):
        self.assertEqual(self.run_main("--goals=0,0", loop=2, batching=1)[0], 0)

    def test_it_continues(self):
        self.assertEqual(self.run_main(loop=8, batching="fails later")[0], 1)
        code, text = self.run_main(loop=8, batching=2)
        self.assertEqual(code, 0, text)
        self.assertEqual(self.asked, [[8, 16]])  # ours was not measured again
        self.assertNotIn("batching 8:", text)
        self.assertIn("batching 16:", text)
        self.assertEqual(self.run_main("--questions=8", loop=8, batching=2)[0], 2)  # other settings

    def test_no_program(self):
        (self.folder / "varifocald").unlink()
        code, text = self.run_main(loop=4, batching=2)
        self.assertEqual(code, 1)
        self.assertIn("has no program varifocald", text)

    def test_usage(self):
        self.assertEqual(self.run_main("--peers=nothing")[0], 2)
        self.assertEqual(self.run_main("--peers=helmet")[0], 2)


class StepTest(unittest.TestCase):
    def test_the_step_without_programs_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("cuda_selfcheck", "gpu_bench"):
                path = pathlib.Path(folder) / program
                path.write_text("#!/bin/sh\n")
                path.chmod(0o755)
            ran = subprocess.run([ROOT / "deploy/gpu_check.sh", "--only=evaluation", "--emulate", f"--bin={folder}", f"--out={folder}/out"],
                                 capture_output=True, text=True, env={**os.environ, "PYTHON": "no-such-python"})
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        self.assertIn("NOT all passed", ran.stdout)


if __name__ == "__main__":
    unittest.main()
