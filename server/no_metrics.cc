// For programs that are linked statically: Debian has prometheus-cpp as a shared library alone.
#include "server/metrics.h"

namespace varifocal {

absl::StatusOr<std::string> MetricsText(const MetricsSources&) {
  return absl::UnimplementedError("this program is linked statically and has no metrics");
}

}  // namespace varifocal
