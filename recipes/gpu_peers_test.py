"""gpu_peers.py continues from cells.jsonl, and gpu_table.py prints its rows: python3 recipes/gpu_peers_test.py

gpu_bench is a script written here, whose time grows with every round that it is asked for."""

import json
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
BENCH = """#!{python}
import json, sys
fields = dict.fromkeys("heads kv_heads head_dim rows context sequences ragged shared scale groups inner outputs total vocab tau draws graphs".split(), 0)
kinds = {{"ceiling_product": "product", "ceiling_copy": "copy", "one": "determinism", "two": "two_models"}}
print(json.dumps({{"device": "fake", "backend": "{backend}", "notes": [], "scratch": "", "cells": [dict(fields, cell=c, kind=k, model="") for c, k in kinds.items()]}}), flush=True)
for line in sys.stdin:
    name = line.strip()
    if not name.startswith("ceiling"):
        open("{log}", "a").write(name + chr(10))
    more = {{"one": {{"chunked_ms": 2.0}}, "two": {{"alone_ms": 0.5}}}}.get(name, {{}})
    print(json.dumps(dict(cell=name, right=name != "{wrong}", wrong="another bit", error=0, ms=2.0, tflops=10.0, gbps=10.0, flops=2e10, bytes=2e7, **more)), flush=True)
"""


class GpuPeersTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def peers(self, cells="", backend="fake", wrong=""):
        """Runs gpu_peers.py; which cells were measured, a name a round, and what it printed."""
        log, bench = self.directory / "asked", self.directory / "gpu_bench"
        log.write_text("")
        bench.write_text(BENCH.format(python=sys.executable, log=log, backend=backend, wrong=wrong))
        bench.chmod(bench.stat().st_mode | stat.S_IXUSR)
        run = subprocess.run([sys.executable, HERE / "gpu_peers.py", f"--bench={bench}", f"--out={self.directory / 'times'}", "--tiny", "--rounds=1",
                              f"--cells={cells}", f"--scratch={self.directory}"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1 if wrong else 0, run.stdout + run.stderr)
        return log.read_text().split(), run.stdout

    def test_rows_of_an_earlier_run_are_not_measured_again(self):
        self.assertEqual(self.peers("one")[0], ["one"])
        asked, printed = self.peers("one|two")
        self.assertEqual(asked, ["two"])
        self.assertIn("1 cells are from earlier runs", printed)
        self.assertIn("chunked 2, 1", printed)  # the earlier row is in the table
        self.assertEqual(self.peers("one|two", backend="another")[0], ["one", "two"])

    def test_wrong_and_torn_rows_are_measured_again(self):
        self.assertEqual(self.peers("one", wrong="one")[0], ["one"])
        with open(self.directory / "times" / "cells.jsonl", "a") as file:
            file.write('{"cell": "one", "ms"')
        self.assertEqual(self.peers("one")[0], ["one"])

    def test_tables(self):
        self.peers()
        (self.directory / "results.jsonl").write_text("".join(
            json.dumps({"step": "sm90", "case": case, "status": status, "exit": 0, "seconds": 1, "message": ""}) + "\n"
            for case, status in (("a", "ok"), ("b", "hang"), ("c", "skipped"), ("b", "ok"), ("d", "failed"), ("times-1-mma-x", "ok"))))
        cell = dict.fromkeys("heads context shared tau draws graphs sequences total groups scale".split(), 0)
        cells = [dict(cell, cell="prefill_1", kind="attention", rows=8192), dict(cell, cell="focus", kind="attention", rows=32768, groups=8)]

        def write(step, name, backend, *rows):
            (self.directory / step).mkdir(exist_ok=True)
            lines = [{"device": "fake", "backend": backend, "cells": cells}, *rows]
            (self.directory / step / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

        time = lambda ms, cell="prefill_1", **more: dict(cell=cell, right=True, ms=ms, tflops=600, **more)
        write("sm90", "times-1-sm90-prefill_1.log", "sm90", time(1.0), time(1.0))
        write("sm90", "times-2-mma-prefill_1.log", "mma", time(3.0), time(2.0), time(1.5))
        write("sm90", "times-10-sm90:turns=off-prefill_1.log", "sm90", time(4.0))
        write("gathered", "times-mma:focus=gathered.log", "mma-gathered", time(2.0, "focus", dense_ms=5.0))
        write("gathered", "times-mma:focus=masked.log", "mma", time(2.0, "focus", dense_ms=5.0))
        text = subprocess.run([sys.executable, HERE / "gpu_table.py", self.directory], capture_output=True, text=True, check=True).stdout
        for line in ("| sm90 | 2 of 3 | d (failed) |",
                     "| prefill_1, sm90 | mma | 1 | 2 (1 of 2 ms, 600 TFLOP/s), met |",
                     "| prefill_1, sm90:turns=off | mma | 1 | 0.5 (4 of 2 ms, 600 TFLOP/s), MISSED |",
                     "| focus, mma:focus=gathered | dense | 3 | 2.5 (2 of 5 ms, 600 TFLOP/s), MISSED |",
                     "| focus, mma:focus=masked | dense | 1 | 2.5 (2 of 5 ms, 600 TFLOP/s), met |",
                     "| two | alone | 0.1 | 0.25 (2 of 0.5 ms, 10 TFLOP/s), met |"):
            self.assertIn(line + "\n", text)


if __name__ == "__main__":
    unittest.main()
