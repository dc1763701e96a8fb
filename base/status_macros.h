// RETURN_IF_ERROR and ASSIGN_OR_RETURN over absl::Status, errors whose messages have several parts, as
// InvalidArgument("top_p is ", top_p, "; it must be at most 1"), and Annotate, which prefixes a message with its context.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace varifocal {

#define VF_STATUS_OF_PARTS_(Kind)                     \
  template <typename... Parts>                        \
  absl::Status Kind(const Parts&... parts) {          \
    return absl::Kind##Error(absl::StrCat(parts...)); \
  }
VF_STATUS_OF_PARTS_(AlreadyExists)
VF_STATUS_OF_PARTS_(DataLoss)
VF_STATUS_OF_PARTS_(FailedPrecondition)
VF_STATUS_OF_PARTS_(Internal)
VF_STATUS_OF_PARTS_(InvalidArgument)
VF_STATUS_OF_PARTS_(NotFound)
VF_STATUS_OF_PARTS_(OutOfRange)
VF_STATUS_OF_PARTS_(PermissionDenied)
VF_STATUS_OF_PARTS_(ResourceExhausted)
VF_STATUS_OF_PARTS_(Unavailable)
VF_STATUS_OF_PARTS_(Unimplemented)
#undef VF_STATUS_OF_PARTS_

// The same code and payloads (base/reason.h) with "context: " in front of the message, e.g. a file name or "line 12".
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

template <typename T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> value, absl::string_view context) {
  if (value.ok()) return value;
  return Annotate(value.status(), context);
}

}  // namespace varifocal

#define RETURN_IF_ERROR(expression)         \
  do {                                      \
    absl::Status vf_status_ = (expression); \
    if (!vf_status_.ok()) [[unlikely]]      \
      return vf_status_;                    \
  } while (false)

#define VF_CONCAT_INNER_(a, b) a##b
#define VF_CONCAT_(a, b) VF_CONCAT_INNER_(a, b)
#define ASSIGN_OR_RETURN(left, expression) VF_ASSIGN_OR_RETURN_(VF_CONCAT_(vf_status_or_, __LINE__), left, expression)
#define VF_ASSIGN_OR_RETURN_(temporary, left, expression) \
  auto temporary = (expression);                          \
  if (!temporary.ok()) [[unlikely]]                       \
    return std::move(temporary).status();                 \
  left = std::move(temporary).value()
