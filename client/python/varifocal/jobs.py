"""A job of a daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import grpc
import pandas as pd

from varifocal.errors import VarifocalError, translated
from varifocal.v1 import evaluation_pb2 as messages

if TYPE_CHECKING:
    from varifocal.client import Client

_SETTLED = (messages.Job.SUCCEEDED, messages.Job.FAILED, messages.Job.CANCELLED)


class JobFailed(Exception):
    """A job that ended otherwise than by answering everything."""


class Job:
    """One job as it was when last read; `message` is the complete reply of the daemon."""

    def __init__(self, client: Client, message: messages.Job) -> None:
        self._client = client
        self.message = message

    def __repr__(self) -> str:
        return f"<{self.name} {self.state}: {self.done_count} of {self.planned_count} answered>"

    @property
    def name(self) -> str:
        """"jobs/3"."""
        return self.message.name

    @property
    def id(self) -> int:
        """3, as in the database."""
        return int(self.name.removeprefix("jobs/"))

    @property
    def state(self) -> str:
        """"queued", "running", "succeeded", "failed", "cancelling", "cancelled" or "paused".

        VarifocalError for a state that only a newer package knows.
        """
        try:
            return messages.Job.State.Name(self.message.state).lower()
        except ValueError:
            raise VarifocalError(f"{self.name} is in a state that this package does not know "
                                 f"({self.message.state}); a newer one does", grpc.StatusCode.UNIMPLEMENTED) from None

    @property
    def is_settled(self) -> bool:
        return self.message.state in _SETTLED

    @property
    def variants(self) -> list[str]:
        return list(self.message.variants)

    @property
    def planned_count(self) -> int:
        return self.message.progress.planned_count

    @property
    def done_count(self) -> int:
        return self.message.progress.done_count

    @property
    def failed_count(self) -> int:
        return self.message.progress.failed_count

    def refresh(self) -> Job:
        with translated():
            self.message = self._client.evaluation.GetJob(
                messages.GetJobRequest(name=self.name), timeout=self._client.timeout)
        return self

    def watch(self) -> Iterator[Job]:
        """Yields this job whenever it has changed, at least every ten seconds, until it is settled."""
        with translated():
            for change in self._client.evaluation.WatchJob(messages.WatchJobRequest(name=self.name)):
                self.message = change.job
                yield self

    def wait(self, on_change: Callable[[Job], object] | None = None) -> Job:
        """Follows the job to its end. JobFailed unless it succeeded with every sample answered."""
        for job in self.watch():
            if on_change is not None:
                on_change(job)
        if self.message.state != messages.Job.SUCCEEDED:
            raise JobFailed(f"{self.name} is {self.state}: {self.message.error_message or 'stopped on request'}")
        if self.failed_count > 0:
            raise JobFailed(f"{self.failed_count} of {self.planned_count} samples of {self.name} failed")
        return self

    def cancel(self) -> Job:
        with translated():
            self.message = self._client.evaluation.CancelJob(
                messages.CancelJobRequest(name=self.name), timeout=self._client.timeout)
        return self

    def resume(self, allow_mixed: bool = False) -> Job:
        with translated():
            self.message = self._client.evaluation.ResumeJob(
                messages.ResumeJobRequest(name=self.name, allow_mixed=allow_mixed), timeout=self._client.timeout)
        return self

    def delete(self) -> int:
        """Removes the job, which has ended, with its answers for good; returns the number of answers."""
        with translated():
            response = self._client.evaluation.DeleteJob(
                messages.DeleteJobRequest(name=self.name), timeout=self._client.timeout)
        return response.generation_count

    def cells(self) -> pd.DataFrame:
        """How far each cell is, from the daemon: variant, task, context_length, planned, done and failed counts."""
        self.refresh()
        columns = [field.name for field in messages.CellProgress.DESCRIPTOR.fields]
        return pd.DataFrame(
            [[getattr(cell, column) for column in columns] for cell in self.message.progress.cells], columns=columns)
