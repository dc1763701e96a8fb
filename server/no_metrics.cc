// For programs that are linked statically: Debian has prometheus-cpp as a shared library alone.
#include "base/status_macros.h"
#include "server/metrics.h"

namespace varifocal {

absl::StatusOr<std::string> MetricsText(const MetricsSources&) {
  return Unimplemented("this program is linked statically and has no metrics");
}

}  // namespace varifocal
