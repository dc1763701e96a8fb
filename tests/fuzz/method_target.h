// Any bytes as the request of any method, against a server with fake models over an in-process channel.
//
// Properties: the status is OK or has a reason and one of the codes of the API, never INTERNAL, UNKNOWN or UNIMPLEMENTED;
// the call ends; the next call of a known prompt has the known answer (CheckServing). A failed property aborts.
//
// Threads: one.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace varifocal {

struct ServiceMethod {
  std::string name;                          // "/varifocal.v1.Evaluation/SubmitJob"
  const google::protobuf::Message* request;  // a request that is accepted
};

// Every method of both services.
const std::vector<ServiceMethod>& ServiceMethods();

// Calls the method and checks the status; returns its code.
int CallMethod(const ServiceMethod& method, absl::string_view request);
void CheckServing();

}  // namespace varifocal
