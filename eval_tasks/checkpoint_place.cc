#include "eval_tasks/checkpoint_place.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr absl::string_view kAdapter = "@adapter=", kDevices = "@cuda";

// "cuda:0,1" at the end of the place, which is cut there; "" where it names none. Whether it is well formed is for ParseDevices.
std::string TakeDevices(absl::string_view& place) {
  const size_t at = place.rfind(kDevices);
  if (at == absl::string_view::npos || place.find('/', at) != absl::string_view::npos) return "";
  if (const absl::string_view rest = place.substr(at + kDevices.size()); !rest.empty() && rest[0] != ':') return "";
  std::string devices(place.substr(at + 1));
  place = place.substr(0, at);
  return devices;
}

}  // namespace

CheckpointPlace CheckpointOf(absl::string_view place) {
  CheckpointPlace checkpoint;
  checkpoint.devices = TakeDevices(place);
  for (const char* dtype : {"f32", "bf16"}) {
    if (!absl::ConsumeSuffix(&place, absl::StrCat("@", dtype))) continue;
    checkpoint.dtype = dtype;
    break;
  }
  if (const size_t at = place.find(kAdapter); at != absl::string_view::npos) {
    checkpoint.adapter = std::string(place.substr(at + kAdapter.size()));
    place = place.substr(0, at);
  }
  checkpoint.directory = std::string(place);
  return checkpoint;
}

std::string CheckpointPlace::ToString() const {
  return absl::StrCat(directory, adapter.empty() ? "" : kAdapter, adapter, dtype.empty() ? "" : "@", dtype,
                      devices.empty() ? "" : "@", devices);
}

absl::StatusOr<NamedPlace> ReadAdapterFlag(absl::string_view text, const std::vector<NamedPlace>& models) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return InvalidArgument("--adapter=", text, " is not --adapter=NAME=BASE:DIR, BASE the name of a --model");
  }
  const std::string name(text.substr(0, equals));
  absl::string_view directory = text.substr(equals + 1);
  const auto names = [](std::string* out, const NamedPlace& model) { out->append(model.name); };
  if (models.empty()) return InvalidArgument("--adapter=", text, " has no --model that it changes");
  const NamedPlace* base = models.size() == 1 ? &models[0] : nullptr;
  for (const NamedPlace& model : models) {
    if (model.name == name) {
      return InvalidArgument("--adapter=", text, ": ", name,
                             " is the name of a --model; a changed model has a name of its own");
    }
    if (absl::ConsumePrefix(&directory, absl::StrCat(model.name, ":"))) {
      base = &model;
      break;
    }
  }
  if (base == nullptr) {
    return InvalidArgument("--adapter=", text, " does not say which model it changes: ", name,
                           "=BASE:DIR, BASE one of ", absl::StrJoin(models, ", ", names));
  }
  CheckpointPlace place = CheckpointOf(base->place);
  if (!place.adapter.empty()) {
    return InvalidArgument("--adapter=", text, ": ", base->name, " has an adapter; one is supported");
  }
  place.adapter = std::string(directory);
  return NamedPlace{name, place.ToString()};
}

}  // namespace varifocal
