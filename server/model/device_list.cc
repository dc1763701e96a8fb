#include "server/model/device_list.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return WithReason(InvalidArgument("device \"", text, "\" ", why), ErrorReason::kBadDevice);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseDevices(absl::string_view text) {
  if (text.empty()) return std::vector<std::string>{"auto"};
  if (text == "cuda") return std::vector<std::string>{"cuda:0"};
  absl::string_view indexes = text;
  if (!absl::ConsumePrefix(&indexes, "cuda:")) {
    if (text.find_first_of(",:") == absl::string_view::npos) return std::vector<std::string>{std::string(text)};
    return Bad(text, "names no GPU; only GPUs have numbers and are listed, as cuda:0 or cuda:0,1");
  }
  std::vector<std::string> devices;
  for (const absl::string_view index : absl::StrSplit(indexes, ',')) {
    int number = 0;
    const bool is_number = std::all_of(index.begin(), index.end(), absl::ascii_isdigit);
    if (!is_number || !absl::SimpleAtoi(index, &number))
      return Bad(text, absl::StrCat("has \"", index, "\" where a GPU's number is expected; write cuda:0 or cuda:0,1"));
    std::string device = absl::StrCat("cuda:", number);
    if (std::find(devices.begin(), devices.end(), device) != devices.end())
      return Bad(text, absl::StrCat("lists ", device, " twice; a model has one copy on a GPU"));
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace varifocal
