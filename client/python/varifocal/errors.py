"""What a daemon answers instead of a result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status


class VarifocalError(Exception):
    """A call that failed: the daemon's sentence, with its code and the reason that programs can switch on.

    code: the gRPC status code. reason: as in ErrorInfo, for example "MODEL_NOT_FOUND"; empty when there is none.
    """

    def __init__(self, message: str, code: grpc.StatusCode, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def from_grpc(error: grpc.RpcError) -> VarifocalError:
    assert isinstance(error, grpc.Call)
    reason = ""
    status = rpc_status.from_call(error)
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            reason = info.reason
    return VarifocalError(error.details() or error.code().name, error.code(), reason)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise from_grpc(error) from None
    except ValueError as error:
        if "closed channel" not in str(error):
            raise
        raise VarifocalError("this client is closed, as it is after its with block; connect() gives another one",
                             grpc.StatusCode.FAILED_PRECONDITION) from None
