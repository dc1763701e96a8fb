// RETURN_IF_ERROR and ASSIGN_OR_RETURN over absl::Status, and Annotate, which prefixes a message with its context.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// The same code and payloads (base/reason.h) with "context: " in front of the message, e.g. a file name or "line 12".
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
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
