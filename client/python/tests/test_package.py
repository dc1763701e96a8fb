"""The installed wheel against a daemon. VARIFOCAL_BIN is the directory of the programs; run in the repository's root."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import grpc
import pandas as pd
import varifocal
from varifocal.v1 import config_pb2, inference_pb2

BIN = pathlib.Path(os.environ["VARIFOCAL_BIN"]).resolve()
ROOT = pathlib.Path.cwd()
MODELS = ["--model=baseline=" + str(ROOT / "models/baseline"), "--model=focal=" + str(ROOT / "models/focal-constant")]
SUITE = """name: mine
lengths: [256, 512]
samples: 8
tasks:
  - kind: recall_kv
  - name: late
    kind: recall_kv
    parameters: {depth: 0.9}
    chat: false
"""


class Daemon:
    def __init__(self, folder: pathlib.Path, address: str, *arguments: str) -> None:
        self.database = folder / "results.db"
        port_file = folder / "port"
        port_file.unlink(missing_ok=True)
        self._log = open(folder / "log", "w", encoding="utf-8")
        self._process = subprocess.Popen(
            [BIN / "varifocald", f"--db={self.database}", f"--listen={address}", f"--port-file={port_file}", *MODELS,
             *arguments], stdout=self._log, stderr=self._log)
        while not (port_file.exists() and port_file.read_text()):
            if self._process.poll() is not None:
                raise AssertionError((folder / "log").read_text())
            time.sleep(0.05)
        port = port_file.read_text().strip()
        self.address = address if address.startswith("unix:") else f"127.0.0.1:{port}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()


class WithDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls._folder.name)
        cls.daemon = Daemon(cls.folder, f"unix:{cls.folder}/socket")
        cls.client = varifocal.connect(cls.daemon.address)
        suite = cls.folder / "mine.yaml"
        suite.write_text(SUITE)
        cls.suite = suite

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.daemon.stop()
        cls._folder.cleanup()

    def results(self) -> varifocal.Database:
        return varifocal.Database(self.daemon.database, program=str(BIN / "varifocal"))

    def test_a_job_from_submission_to_frames(self) -> None:
        seen = []
        job = self.client.submit(self.suite, ["baseline", "focal@t=0.7"])
        job.wait(lambda now: seen.append(now.state))
        self.assertEqual(job.state, "succeeded")
        self.assertEqual(seen[-1], "succeeded")
        self.assertEqual(job.variants, ["baseline", "focal@t=0.7"])
        self.assertEqual(job.done_count, 2 * 2 * 2 * 8)
        cells = job.cells()
        self.assertEqual(list(cells["done_count"]), [8] * 8)

        results = self.results()
        samples = results.samples(job.id)
        self.assertEqual(len(samples), job.done_count)
        pairs = results.pairs("baseline", "focal@t=0.7", job.id)
        compared = results.compare("baseline", "focal@t=0.7", job.id)
        cells = compared[compared["kind"] == "cell"].set_index(["task", "metric", "context_length"])["difference"]
        by_pandas = pairs.groupby(["task", "metric", "context_length"])["difference"].mean()
        pd.testing.assert_series_equal(cells.sort_index(), by_pandas.sort_index(), check_dtype=False)
        self.assertTrue(set(compared["outcome"].dropna()) <= {"better", "worse", "equivalent", "undecided"})
        self.assertEqual(len(results.report_rows(job.id)["task"].dropna().unique()), 2)
        self.assertEqual(int(results.jobs()["job_id"].iloc[0]), results.latest_job())
        first = ["kind", "task", "metric", "context_length", "baseline", "candidate", "baseline_mean", "candidate_mean",
                 "difference", "low", "high", "p_value", "p_adjusted", "outcome"]
        self.assertEqual(list(compared.columns[:len(first)]), first)
        self.assertEqual(set(compared["baseline_epochs"]), {1})
        with self.assertRaisesRegex(RuntimeError, "pass@2"):
            results.compare("baseline", "focal@t=0.7", job.id, epochs_statistic="pass@2")
        # A metric of one's own, while the daemon has the database open.
        self.assertNotIn("prompt", samples.columns)
        scores = samples["answer"].str.len().clip(upper=10) / 10
        self.assertEqual(self.client.import_scores("length", samples, scores, job=job.id), len(samples))
        own = results.compare("baseline", "focal@t=0.7", job.id, metric="imported/length")
        self.assertEqual(set(own["metric"].dropna()), {"imported/length"})
        self.assertIn("suite_mean", set(own["kind"]))
        with self.assertRaises(varifocal.VarifocalError) as caught:
            self.client.import_scores("length", samples, scores + 1, job=job.id)
        self.assertEqual(caught.exception.reason, "BAD_SCORES")
        by_sqlite = results.scores(job.id)
        with mock.patch("varifocal.results._SQLITE_NEEDED", (99, 0)):  # of a Python whose SQLite cannot read the file
            pd.testing.assert_frame_equal(results.scores(job.id), by_sqlite)
            self.assertEqual(results.query("SELECT '?' AS \"a?\", ? AS b, ? AS c -- ?", ["it's", None]).iloc[0].tolist(), ["?", "it's", None])
            self.assertEqual(list(results.query("SELECT 1 AS a WHERE 0").columns), ["a"])
            with self.assertRaisesRegex(ValueError, "has 1 .*0 parameters"):
                results.query("SELECT ?")
        report = self.folder / "report.html"
        results.write_report(report, job.id)
        self.assertIn("<!doctype html>", report.read_text())
        self.assertIn(job.name, [other.name for other in self.client.jobs()])

    def test_a_suite_is_read_as_the_program_reads_it(self) -> None:
        ours = self.client.submit(self.suite, ["baseline"], lengths=[256], seed=5, limit=4)
        theirs = subprocess.run(
            [BIN / "varifocal", "submit", self.suite, "--models=baseline", "--lengths=256", "--seed=5", "--limit=4",
             f"--daemon={self.daemon.address}", "--format=json"], capture_output=True, text=True, check=True)
        same = next(job for job in self.client.jobs() if f"\"{job.name}\"" in theirs.stdout)
        self.assertNotEqual(same.name, ours.name)
        self.assertEqual(same.message.spec_sha256, ours.message.spec_sha256)
        other = self.client.submit(self.suite, ["baseline"], lengths=[256], seed=6, limit=4)
        self.assertNotEqual(other.message.spec_sha256, ours.message.spec_sha256)
        for job in (ours, same, other):
            job.wait()

    def test_the_same_request_is_the_same_job(self) -> None:
        first = self.client.submit("quick", ["baseline"], lengths=[4096], request_id="once")
        second = self.client.submit("quick", ["baseline"], lengths=[4096], request_id="once")
        self.assertEqual(first.name, second.name)
        by_content = [self.client.submit("quick", ["baseline"], lengths=[2048]).name for _ in range(2)]
        self.assertEqual(by_content[0], by_content[1])
        another = self.client.submit("quick", ["baseline"], lengths=[2048], request_id="")
        self.assertNotEqual(another.name, by_content[0])
        for name in (by_content[0], another.name):
            self.client.job(name).cancel()
        first.cancel()
        self.assertEqual([job.state for job in first.watch()][-1], "cancelled")
        with self.assertRaisesRegex(varifocal.JobFailed, "stopped on request"):
            first.wait()
        self.assertIn(first.resume().state, ("queued", "running"))
        with self.assertRaises(varifocal.VarifocalError) as caught:
            first.delete()
        self.assertEqual(caught.exception.code, grpc.StatusCode.FAILED_PRECONDITION)
        first.cancel()
        self.assertEqual([job.state for job in first.watch()][-1], "cancelled")
        self.assertGreaterEqual(first.delete(), 0)
        self.assertNotIn(first.name, [other.name for other in self.client.jobs()])

    def test_errors_have_the_daemons_sentence_code_and_reason(self) -> None:
        with self.assertRaises(varifocal.VarifocalError) as caught:
            self.client.submit("quick", ["missing"])
        self.assertEqual(caught.exception.code, grpc.StatusCode.NOT_FOUND)
        self.assertEqual(caught.exception.reason, "MODEL_NOT_FOUND")
        self.assertIn("missing", str(caught.exception))
        with self.assertRaises(varifocal.VarifocalError) as caught:
            self.client.job(999)
        self.assertEqual(caught.exception.reason, "JOB_NOT_FOUND")
        with self.assertRaisesRegex(ValueError, "there are .*quick"):
            self.client.submit("quikc", ["baseline"])
        with self.assertRaisesRegex(RuntimeError, "has the variant missing"):
            self.results().compare("baseline", "missing")

    def test_variants_are_read_by_the_daemon(self) -> None:
        """What the grammar's table refuses is refused here too, with the daemon's reason."""
        table = json.loads((ROOT / "eval_tasks/testdata/variants.json").read_text(encoding="utf-8"))
        refused = [row["text"] for row in table if row["name"] is None]
        self.assertGreaterEqual(len(refused), 20)
        for text in refused:
            with self.assertRaises(varifocal.VarifocalError, msg=text) as caught:
                self.client.submit(self.suite, [text])
            self.assertEqual(caught.exception.code, grpc.StatusCode.INVALID_ARGUMENT, text)
            self.assertEqual(caught.exception.reason, "BAD_JOB_SPEC" if text else "BAD_RESOURCE_NAME", text)

    def test_rows_are_found_beside_the_suite(self) -> None:
        folder = self.folder / "elsewhere"
        folder.mkdir()
        (folder / "rows.jsonl").write_text("{\"q\": \"Where?\", \"a\": \"Rome\"}\n")
        (folder / "own.yaml").write_text("name: own\nlengths: [256]\ntasks:\n  - kind: jsonl\n    parameters:\n"
                                         "      {path: rows.jsonl, prompt: \"{q}\", gold: a, max_new_tokens: 4}\n")
        ours = self.client.submit(folder / "own.yaml", ["baseline"])
        theirs = subprocess.run(
            [BIN / "varifocal", "submit", folder / "own.yaml", "--models=baseline", f"--daemon={self.daemon.address}",
             "--format=json"], capture_output=True, text=True, check=True)
        same = next(job for job in self.client.jobs() if f"\"{job.name}\"" in theirs.stdout)
        self.assertEqual(same.message.spec_sha256, ours.message.spec_sha256)
        for job in (ours, same):
            job.wait()

    def test_a_closed_client_says_so(self) -> None:
        with varifocal.connect(self.daemon.address) as client:
            client.models()
        with self.assertRaisesRegex(varifocal.VarifocalError, "closed"):
            client.models()

    def test_models_and_plain_stubs(self) -> None:
        lines = str(self.client.models()).splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["model", "baseline", "focal"])
        self.assertEqual([model.name for model in self.client.models()], ["models/baseline", "models/focal"])
        ids = self.client.inference.Tokenize(inference_pb2.TokenizeRequest(model="models/baseline", text=b"ab")).token_ids
        self.assertGreater(len(ids), 0)

    def test_the_example_runs(self) -> None:
        done = subprocess.run(
            [sys.executable, ROOT / "client/python/examples/two_models.py", self.daemon.database,
             f"--daemon={self.daemon.address}", "--limit=2", "--length=512"], capture_output=True, text=True,
            env={**os.environ, "VARIFOCAL": str(BIN / "varifocal")}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("outcome", done.stdout)


    def test_the_notebook_runs(self) -> None:
        """Its code cells, in order, with other parameters."""
        notebook = json.loads((ROOT / "client/python/examples/sweep.ipynb").read_text(encoding="utf-8"))
        names: dict[str, object] = {}
        with mock.patch.dict(os.environ, {"VARIFOCAL": str(BIN / "varifocal")}), contextlib.chdir(self.folder):
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
                if "parameters" in cell["metadata"].get("tags", []):
                    names.update(database=self.daemon.database, daemon=self.daemon.address, lengths=[512, 1024], limit=8,
                                 temperatures=[0.5, 2.0])
        self.assertEqual(list(names["means"].index), [0.5, 1.0, 2.0])
        self.assertEqual(list(names["choices"]["context_length"]), [512, 1024])
        self.assertTrue((self.folder / "sweep.html").exists())


class OverTls(unittest.TestCase):
    def test_a_token_goes_with_every_call(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "cert"],
                check=True, capture_output=True)
            (folder / "token").write_text("secret\n")
            digest = subprocess.run(["sha256sum"], input=b"secret", capture_output=True, check=True).stdout.decode()[:64]
            (folder / "tokens").write_text(f"viewer {digest} anna\n")
            daemon = Daemon(folder, "127.0.0.1:0", f"--tls-cert={folder}/cert", f"--tls-key={folder}/key",
                            f"--token-file={folder}/tokens")
            try:
                with varifocal.connect(daemon.address, tls_ca=folder / "cert", token_file=folder / "token") as client:
                    self.assertEqual(len(client.models()), 2)
                    with self.assertRaises(varifocal.VarifocalError) as caught:
                        client.submit(varifocal.read_suite(self.suite(folder)), ["baseline"])
                    self.assertEqual(caught.exception.code, grpc.StatusCode.PERMISSION_DENIED)
                with varifocal.connect(daemon.address, tls_ca=folder / "cert") as client:
                    with self.assertRaises(varifocal.VarifocalError) as caught:
                        client.models()
                    self.assertEqual(caught.exception.code, grpc.StatusCode.UNAUTHENTICATED)
                with self.assertRaises(varifocal.VarifocalError):
                    varifocal.connect(daemon.address, connect_timeout=1)
            finally:
                daemon.stop()

    @staticmethod
    def suite(folder: pathlib.Path) -> pathlib.Path:
        path = folder / "mine.yaml"
        path.write_text(SUITE)
        return path


class Alone(unittest.TestCase):
    def test_no_daemon_is_unavailable(self) -> None:
        with self.assertRaises(varifocal.VarifocalError) as caught:
            with tempfile.TemporaryDirectory() as folder:
                varifocal.connect(f"unix:{folder}/socket", connect_timeout=0.2)
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)

    def test_what_cannot_be_meant_is_a_value_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "TLS alone"):
            varifocal.connect(token_file="token")
        with self.assertRaisesRegex(ValueError, "together"):
            varifocal.connect(tls_ca="ca", tls_cert="cert")
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(FileNotFoundError):
            varifocal.Database(pathlib.Path(folder) / "results.db")

    def test_variants(self) -> None:
        self.assertEqual(varifocal.parse_variant("a@t=0.5"), config_pb2.Variant(name="a@t=0.5"))
        self.assertEqual(varifocal.parse_variant("models/a"), config_pb2.Variant(name="a"))

    def test_suites(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "a.yaml"
            path.write_text("name: a\nlengths: [1024]\ntasks:\n  - kind: jsonl\n    chat: true\n"
                            "    parameters: {path: rows.jsonl, gold: 0.10, stop: [a, \"b\"]}\n")
            suite = varifocal.read_suite(path)
            self.assertEqual(suite.tasks[0].parameters["path"], "rows.jsonl")
            self.assertEqual(suite.folder, name)
            self.assertEqual(suite.tasks[0].parameters["gold"], "0.10")
            self.assertEqual(suite.tasks[0].parameters["stop"], '["a", "b"]')
            self.assertTrue(suite.tasks[0].chat)
            self.assertFalse(suite.HasField("seed"))
            path.write_text("lengths: [1K, 512]\nsamples_at: {1k: 3}\n")
            suite = varifocal.read_suite(path)
            self.assertEqual(list(suite.lengths), [1024, 512])
            self.assertEqual(dict(suite.samples_at), {1024: 3})
            path.write_text("name: a\nlengths: [1024]\nanswer: {max_new_tokens: 64}\nthinking: {force: true, begin: <a>, end: </a>}\n"
                            "tasks:\n  - kind: niah\n    answer: {thinking_max_tokens: 512}\n")
            suite = varifocal.read_suite(path)
            self.assertEqual(suite.answer.max_new_tokens, 64)
            self.assertTrue(suite.thinking.force)
            self.assertEqual(suite.tasks[0].answer.thinking_max_tokens, 512)
            path.write_text("name: a\nform: chat\nlengths: [1024]\ntasks:\n  - kind: niah\n    filters:\n    - last_line\n"
                            "    - {filter: regex, pattern: (a), group: 0}\n")
            suite = varifocal.read_suite(path)
            self.assertEqual(suite.form, "chat")
            self.assertEqual([step.filter for step in suite.tasks[0].filters], ["last_line", "regex"])
            self.assertTrue(suite.tasks[0].filters[1].HasField("group"))
            table = json.loads((ROOT / "eval_tasks/testdata/suites.json").read_text(encoding="utf-8"))
            for row in table:
                with self.subTest(row["text"]):
                    path.write_text("name: a\n" + row["text"], encoding="utf-8")
                    if row["same_as"] is None:
                        with self.assertRaisesRegex(ValueError, "is no suite"):
                            varifocal.read_suite(path)
                        continue
                    suite = varifocal.read_suite(path)
                    path.write_text("name: a\n" + row["same_as"], encoding="utf-8")
                    self.assertEqual(suite, varifocal.read_suite(path))
            for wrong in ("lengths: [2M]\n", "name: a\nname: b\n", "nmae: a\n", "lengths: [x]\n", "[]", "tasks: [{chat: maybe}]", "a: [", ""):
                path.write_text(wrong)
                with self.assertRaisesRegex(ValueError, "is no suite"):
                    varifocal.read_suite(path)


if __name__ == "__main__":
    unittest.main()
