"""A connection to a daemon."""

from __future__ import annotations

import hashlib
import os
import pathlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Union

import grpc
import pandas as pd

from varifocal.errors import VarifocalError, translated
from varifocal.jobs import Job
from varifocal.suites import context_length, parse_suite, parse_variant, read_suite
from varifocal.v1 import config_pb2, evaluation_pb2, evaluation_pb2_grpc, inference_pb2, inference_pb2_grpc

_MESSAGE_BYTES_MAX = 16 << 20  # both ways, as the daemon's
_SCORES_OF_A_CALL = 50_000

Path = Union[str, "os.PathLike[str]"]  # evaluated, and Python 3.9 has no | of types


class _Token(grpc.AuthMetadataPlugin):
    def __init__(self, token: str) -> None:
        self._metadata = (("authorization", f"Bearer {token}"),)

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        callback(self._metadata, None)


def _credentials(tls_ca: Path, tls_cert: Path | None, tls_key: Path | None,
                 token_file: Path | None) -> grpc.ChannelCredentials:
    def read(path: Path | None) -> bytes | None:
        return None if path is None else pathlib.Path(path).read_bytes()

    credentials = grpc.ssl_channel_credentials(read(tls_ca), read(tls_key), read(tls_cert))
    if token_file is None:
        return credentials
    lines = pathlib.Path(token_file).read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0].strip():
        raise ValueError(f"the first line of {os.fspath(token_file)} must be the token")
    return grpc.composite_channel_credentials(credentials,
                                              grpc.metadata_call_credentials(_Token(lines[0].strip())))


def connect(address: str = "127.0.0.1:50151", *, tls_ca: Path | None = None, tls_cert: Path | None = None,
            tls_key: Path | None = None, token_file: Path | None = None, timeout: float = 60,
            connect_timeout: float = 5) -> Client:
    """Connects to a daemon at HOST:PORT or unix:PATH.

    tls_ca: PEM file; use TLS and trust this authority. tls_cert and tls_key: PEM files of the client's certificate.
    token_file: its first line goes with every call, over TLS alone. timeout: of a call that only looks something up or
    queues something, in seconds. VarifocalError with UNAVAILABLE when no daemon answers.
    """
    if tls_ca is None and not (tls_cert is None and tls_key is None and token_file is None):
        raise ValueError("tls_cert, tls_key and token_file need tls_ca: a token is sent over TLS alone")
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("tls_cert and tls_key must be given together")
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
        ("grpc.enable_http_proxy", 0),
    ]
    if tls_ca is None:
        channel = grpc.insecure_channel(address, options)
    else:
        channel = grpc.secure_channel(address, _credentials(tls_ca, tls_cert, tls_key, token_file), options)
    try:
        grpc.channel_ready_future(channel).result(timeout=connect_timeout)
    except grpc.FutureTimeoutError:
        channel.close()
        raise VarifocalError(f"no daemon answers at {address}", grpc.StatusCode.UNAVAILABLE) from None
    return Client(channel, timeout)


class Models(list[inference_pb2.Model]):
    """A list whose text is a table."""

    def __repr__(self) -> str:
        rows = [("model", "state", "attention", "trained to", "at most", "dtype", "backend", "fault")]
        for model in self:
            state = inference_pb2.Model.State.Name(model.state).lower()
            rows.append((model.name.removeprefix("models/"), state, model.attention_label,
                         str(model.trained_context_length or "?"), str(model.context_length_max), model.dtype,
                         model.backend, model.fault))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)

    __str__ = __repr__


class Client:
    """Calls of one daemon. May be shared by threads; close it, or use it in a with statement."""

    def __init__(self, channel: grpc.Channel, timeout: float = 60) -> None:
        self._channel = channel
        self.timeout = timeout
        self.evaluation = evaluation_pb2_grpc.EvaluationStub(channel)
        self.inference = inference_pb2_grpc.InferenceStub(channel)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def models(self) -> Models:
        """The models that the daemon serves, as messages; printed, a line a model."""
        with translated():
            return Models(self.inference.ListModels(inference_pb2.ListModelsRequest(), timeout=self.timeout).models)

    def suites(self) -> dict[str, config_pb2.SuiteConfig]:
        """The daemon's built-in suites by name."""
        with translated():
            answer = self.evaluation.ListSuites(evaluation_pb2.ListSuitesRequest(), timeout=self.timeout)
        return {suite.name: parse_suite(suite.yaml, suite.name) for suite in answer.suites}

    def make_spec(self, suite: str | Path | config_pb2.SuiteConfig, models: Sequence[str | config_pb2.Variant], *,
                  lengths: Sequence[int | str] | None = None, tasks: Sequence[str] | None = None, limit: int | None = None,
                  seed: int | None = None, seeds: int | None = None, keep_prompts: bool = False,
                  form: str | None = None, epochs: int | None = None, sampling_temperature: float | None = None,
                  top_k: int | None = None, top_p: float | None = None,
                  min_p: float | None = None) -> config_pb2.JobSpec:
        """What submit sends. suite: a built-in name, the path of a YAML file (it holds a slash or a dot), or a message.

        lengths and seed replace the suite's; tasks chooses among its tasks by name; limit asks only the first questions of
        every task and length; seeds asks the questions of that many data seeds, pooled. form="chat" asks as a
        chat model is asked. epochs is the number of answers to each question, sampled at sampling_temperature, which must be above 0 then;
        top_k, top_p and min_p leave out unlikely tokens, in this order.
        """
        config = config_pb2.SuiteConfig()
        if isinstance(suite, config_pb2.SuiteConfig):
            config.CopyFrom(suite)
        elif not isinstance(suite, str) or "/" in suite or "." in suite:
            config.CopyFrom(read_suite(suite))
        else:
            known = self.suites()
            if suite not in known:
                raise ValueError(f"no suite is called \"{suite}\"; there are {', '.join(sorted(known))}")
            config.CopyFrom(known[suite])
        if lengths is not None:
            config.lengths[:] = [context_length(length) for length in lengths]
            for samples_at in [config.samples_at, *(task.samples_at for task in config.tasks)]:
                for length in set(samples_at) - set(config.lengths):
                    del samples_at[length]
        if seed is not None:
            config.seed = seed
        if seeds is not None:
            config.seeds = seeds
        if form is not None:
            config.form = form
        if epochs is not None:
            config.epochs = epochs
        if tasks is not None:
            names = [task.name or task.kind for task in config.tasks]
            missing = sorted(set(tasks) - set(names))
            if missing:
                raise ValueError(f"the suite has no task {', '.join(missing)}; it has {', '.join(names)}")
            chosen = [task for task, name in zip(config.tasks, names) if name in tasks]
            del config.tasks[:]
            config.tasks.extend(chosen)
        spec = config_pb2.JobSpec(suite=config, keep_prompts=keep_prompts)
        if limit is not None:
            spec.limit = limit
        if sampling_temperature is not None:
            spec.sampling_temperature = sampling_temperature
        if top_k is not None:
            spec.top_k = top_k
        if top_p is not None:
            spec.top_p = top_p
        if min_p is not None:
            spec.min_p = min_p
        spec.variants.extend(parse_variant(model) if isinstance(model, str) else model for model in models)
        return spec

    def submit(self, suite: str | Path | config_pb2.SuiteConfig, models: Sequence[str | config_pb2.Variant], *,
               lengths: Sequence[int | str] | None = None, tasks: Sequence[str] | None = None, limit: int | None = None,
               seed: int | None = None, seeds: int | None = None, keep_prompts: bool = False, epochs: int | None = None,
               sampling_temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
               min_p: float | None = None, form: str | None = None,
               request_id: str | None = None, new: bool = False) -> Job:
        """Makes a job durable and queues it. models: "baseline", "focal@t=0.7", or messages.

        The same call again gives the same job back. When its data files, weights, tokenizers or configurations have
        changed since, it is an error that names both values; new=True makes another job. request_id: a second call with
        the same id and the same spec gives the first job back, whatever has changed.
        """
        spec = self.make_spec(suite, models, lengths=lengths, tasks=tasks, limit=limit, seed=seed,
                              seeds=seeds, keep_prompts=keep_prompts, form=form, epochs=epochs,
                              sampling_temperature=sampling_temperature, top_k=top_k, top_p=top_p, min_p=min_p)
        request = evaluation_pb2.SubmitJobRequest(spec=spec, request_id=request_id or "",
                                                  reuse_equal_job=request_id is None and not new)
        if new:
            request.request_id = f"python {uuid.uuid4().hex}"
        with translated():
            answer = self.evaluation.SubmitJob(request, timeout=self.timeout)
        return Job(self, answer.job)

    def estimate(self, spec: config_pb2.JobSpec) -> evaluation_pb2.JobEstimate:
        """What a job would cost; nothing is stored. Takes a few seconds: prompts are made and the models measured."""
        with translated():
            return self.evaluation.SubmitJob(
                evaluation_pb2.SubmitJobRequest(spec=spec, validate_only=True), timeout=self.timeout).estimate

    def import_scores(self, name: str, samples: pd.DataFrame, scores: Iterable[float], *, job: int | str | None = None,
                      source: str = "python") -> int:
        """Adds scores of stored answers as the metric "imported/" + name; the number that was stored.

        samples: rows of Database.samples (token_ids_sha256, variant, task, context_length, sample_index). scores: one a row, from 0 to 1.
        job: the newest unless given. source: recorded with them. The same name again replaces the scores.
        """
        columns = ["token_ids_sha256", "variant", "task", "context_length", "sample_index"]
        values = [float(score) for score in scores]
        if len(values) != len(samples):
            raise ValueError(f"there are {len(samples)} samples and {len(values)} scores")
        rows = [(*row, value) for row, value in zip(samples[columns].itertuples(index=False, name=None), values)]
        stored = 0
        for begin in range(0, len(rows), _SCORES_OF_A_CALL):
            part = rows[begin:begin + _SCORES_OF_A_CALL]
            request = evaluation_pb2.ImportScoresRequest(
                source=source, source_sha256=hashlib.sha256(repr(part).encode()).hexdigest())
            if job is not None:
                request.job = job if isinstance(job, str) and job.startswith("jobs/") else f"jobs/{job}"
            for digest, variant, task, length, index, score in part:
                request.judgments.append(evaluation_pb2.Judgment(
                    token_ids_sha256=digest, variant=variant, task=task, context_length=length, sample_index=index,
                    scores={name: score}))
            with translated():
                response = self.evaluation.ImportScores(request, timeout=self.timeout)
            job = response.job  # not a newer one meanwhile
            stored += response.value_count
        return stored

    def job(self, job: int | str) -> Job:
        """The job of this number or name."""
        name = job if isinstance(job, str) and job.startswith("jobs/") else f"jobs/{job}"
        with translated():
            return Job(self, self.evaluation.GetJob(evaluation_pb2.GetJobRequest(name=name), timeout=self.timeout))

    def jobs(self) -> Iterator[Job]:
        """All jobs, the newest first."""
        request = evaluation_pb2.ListJobsRequest()
        seen: set[str] = set()
        while True:
            with translated():
                page = self.evaluation.ListJobs(request, timeout=self.timeout)
            yield from (Job(self, job) for job in page.jobs)
            if not page.next_page_token:
                return
            if not page.jobs or page.next_page_token in seen:
                raise VarifocalError("the daemon's list of jobs does not end", grpc.StatusCode.INTERNAL)
            seen.add(page.next_page_token)
            request.page_token = page.next_page_token
