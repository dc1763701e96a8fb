"""Submits jobs to a Varifocal daemon, follows them, and reads results databases as pandas frames.

    import varifocal

    with varifocal.connect() as client:
        job = client.submit("quick", ["baseline", "focal"], lengths=[1024], limit=8)
        job.wait()
    results = varifocal.Database("results.db")
    print(results.compare("baseline", "focal"))

Every message and call of protos/ is in varifocal.v1, and Client.inference and Client.evaluation are the plain stubs.
"""

from varifocal.client import Client, connect
from varifocal.errors import VarifocalError
from varifocal.jobs import Job, JobFailed
from varifocal.results import Database
from varifocal.suites import parse_variant, read_suite

__all__ = ["Client", "Database", "Job", "JobFailed", "VarifocalError", "connect", "parse_variant", "read_suite"]
