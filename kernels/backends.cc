// The table of backends. A new device is a row here and a folder beside this file.

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace varifocal::kernels {
namespace {

struct BackendRow {
  const char* name;
  const char* device;  // what the user writes before an optional ":N"
  Result<std::unique_ptr<Backend>> (*create)(const BackendOptions&);
};

// The first row is what "auto" means on a host without a device.
const BackendRow kBackends[] = {
    {"cpu", "cpu", CreateCpuBackend},
    {"reference", "reference", CreateReferenceBackend},
};

}  // namespace

Result<std::unique_ptr<Backend>> CreateBackend(const BackendOptions& options) {
  const std::string device = options.device == "auto" ? kBackends[0].device : options.device;
  const std::string kind = device.substr(0, device.find(':'));
  std::string known;
  for (const BackendRow& row : kBackends) {
    if (kind == row.device) return row.create(options);
    known += known.empty() ? row.name : std::string(", ") + row.name;
  }
  return Error{ErrorCode::kUnsupported, "this build has no device \"" + options.device + "\", only auto, " + known};
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.push_back(row.name);
  return names;
}

}  // namespace varifocal::kernels
