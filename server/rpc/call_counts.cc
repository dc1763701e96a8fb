#include "server/rpc/call_counts.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/rpc/access.h"

namespace varifocal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

constexpr absl::string_view kPackage = "/varifocal.v1.";
constexpr absl::string_view kStandardServices = "/grpc.";
// A caller chooses the name of a method that does not exist, so it is no label.
constexpr char kUnknownMethod[] = "unknown";

std::string CodeName(const grpc::Status& status) {
  // The canonical codes have the same numbers in both libraries.
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
}

// The reason in the details (server/rpc/status.h), the code's name without one.
std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      if (detail.UnpackTo(&info)) return info.reason();
    }
  }
  return CodeName(status);
}

class Counter final : public grpc::experimental::Interceptor {
 public:
  Counter(CallCounts* counts, std::string method) : counts_(counts), method_(std::move(method)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS))
      counts_->Add(method_, methods->GetSendStatus());
    methods->Proceed();
  }

 private:
  CallCounts* const counts_;
  const std::string method_;
};

class CounterFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CounterFactory(CallCounts* counts) : counts_(counts) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    absl::string_view method = info->method();
    if (absl::StartsWith(method, kStandardServices)) return nullptr;
    const bool is_known = IsMethod(method) && absl::ConsumePrefix(&method, kPackage);
    return new Counter(counts_, is_known ? std::string(method) : kUnknownMethod);
  }

 private:
  CallCounts* const counts_;
};

}  // namespace

void CallCounts::Add(const std::string& method, const grpc::Status& status) {
  const std::string reason = status.ok() ? "" : ReasonIn(status);
  MutexLock lock(mutex_);
  ++counts_.calls[{method, CodeName(status)}];
  if (!status.ok()) ++counts_.errors[reason];
}

CallCounts::Counts CallCounts::Get() const {
  MutexLock lock(mutex_);
  return counts_;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallCounter(CallCounts* counts) {
  return std::make_unique<CounterFactory>(counts);
}

}  // namespace varifocal
