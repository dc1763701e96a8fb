#include "db/stats/design_effects.h"

#include <utility>

namespace varifocal::stats {

void DesignEffects::Add(const MetricKey& key, int64_t length, std::vector<Cluster> clusters,
                        std::optional<double> span) {
  Metric& metric = metrics_[key];
  metric.lengths[length] = std::move(clusters);
  metric.span = span;
}

double DesignEffects::Of(const MetricKey& key, int64_t length) const {
  const Metric& metric = metrics_.at(key);
  std::vector<std::vector<Cluster>> own, over_tasks;
  for (const auto& [at, clusters] : metric.lengths) own.push_back(clusters);
  const std::optional<double> effect = PooledDesignEffect(own);
  if (!effect.has_value()) {
    for (const auto& [other_key, other] : metrics_) {
      if (!other.span.has_value()) continue;
      for (const auto& [at, clusters] : other.lengths) {
        over_tasks.push_back(clusters);
        for (Cluster& cluster : over_tasks.back()) {
          cluster.sum /= *other.span;
          cluster.square_sum /= *other.span * *other.span;
        }
      }
    }
  }
  return BorrowedDesignEffect(metric.lengths.at(length), effect, PooledDesignEffect(over_tasks));
}

}  // namespace varifocal::stats
