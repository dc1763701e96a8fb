// The design effect that a cell without enough spread of its own borrows: that of the same task and metric over all
// lengths; if no value differs at any, that over all tasks' primary metrics; if none differs there either, the largest.
//
// Units:   values of one side, or differences, in the metric's unit.
// Threads: any, once everything is added.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "db/stats/clusters.h"

namespace varifocal::stats {

using MetricKey = std::tuple<std::string, int64_t, std::string>;  // task, metric index, metric

class DesignEffects {
 public:
  // `span` of a task's primary metric, from worst to best; none: the cell does not count over tasks.
  void Add(const MetricKey& key, int64_t length, std::vector<Cluster> clusters, std::optional<double> span);

  double Of(const MetricKey& key, int64_t length) const;  // of a cell that was added

 private:
  struct Metric {
    std::map<int64_t, std::vector<Cluster>> lengths;
    std::optional<double> span;
  };
  std::map<MetricKey, Metric> metrics_;
};

}  // namespace varifocal::stats
