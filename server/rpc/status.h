// Converts absl::Status to grpc::Status and back.
//
// Codes are the same. The details carry google.rpc.Status with google.rpc.ErrorInfo (reason, domain "varifocal.v1",
// metadata), and google.rpc.BadRequest where the reason names a field. Details travel in trailers, which gRPC limits to
// 8 KiB together, so long sentences and values are shortened.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace varifocal {

inline constexpr char kErrorDomain[] = "varifocal.v1";

grpc::Status ToGrpcStatus(const absl::Status& status);
// With the reason and the metadata of another daemon's details, where this version knows the reason.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace varifocal
