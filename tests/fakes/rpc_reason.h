// What a client reads in the details of an error.
//
// Threads: any.
#pragma once

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"

namespace varifocal {

// The reason in the details of an error.
inline std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details())) return "(unreadable details)";
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&info)) return info.domain() == "varifocal.v1" ? info.reason() : "(foreign domain)";
  }
  return "(no reason)";
}

}  // namespace varifocal
