#include "server/jobs/job_records.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/check.h"
#include "base/code_version.h"
#include "base/json.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {
namespace {

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// "AMD EPYC 7763 64-Core Processor" for a CPU, the backend's own name for anything else.
std::string DeviceName(const ModelProvenance& provenance) {
  if (provenance.device != "cpu") return provenance.device;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "cpu";
}

Json NumberOrList(const std::vector<double>& values) {
  const bool all_equal = std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
  return all_equal && !values.empty() ? Json(values[0]) : Json(values);
}

}  // namespace

db::ExecutionRecord ToExecutionRecord(const ModelProvenance& provenance, const std::string& command_line) {
  db::ExecutionRecord record;
  record.code_version = CodeVersion();
  record.backend = provenance.backend;
  record.instruction_set = provenance.isa;
  record.device = DeviceName(provenance);
  record.host = HostName();
  record.thread_count = provenance.threads;
  record.command_line = command_line;
  return record;
}

db::VariantRecord ToVariantRecord(const Variant& variant, const HostedModel& model) {
  db::VariantRecord record;
  record.name = variant.Name();
  record.model.name = model.name;
  record.model.architecture = model.config.model_type;
  record.model.weights_sha256 = model.provenance.weights_sha256;
  record.model.tokenizer_sha256 =
      VariantTokenizerSha256(model.provenance.tokenizer_sha256, model.chat_format.get(), ThinkingOf(variant.overrides));
  record.model.dtype = model.provenance.dtype;
  record.model.function_json = model.provenance.function_json;
  record.model.attention_json = model.config.attention.json();
  record.model.context_length_max = model.config.max_position;
  record.model.trained_context_length = model.config.trained_context_length;
  if (model.provenance.parameter_count > 0) record.model.parameter_count = model.provenance.parameter_count;
  const Training& training = model.config.training;
  if (!training.arm.empty()) record.model.training_arm = training.arm;
  record.model.training_seed = training.seed;
  record.model.training_tokens = training.tokens;
  if (const auto temperature = variant.overrides.find(kFocalTemperature); temperature != variant.overrides.end())
    record.focal_temperature_json = NumberOrList(temperature->second).dump();
  return record;
}

std::vector<db::TaskMetricRecord> ToTaskMetrics(const JobSpec& spec) {
  std::vector<db::TaskMetricRecord> rows;
  for (const TaskSpec& task : spec.suite.tasks) {
    for (size_t i = 0; i < task.metrics.size(); ++i) {
      const Metric* metric = FindMetric(task.metrics[i]);
      VF_CHECK(metric != nullptr, "a validated spec names known metrics");
      // Every bounded metric of the table is a share, so 1 is the best value.
      db::TaskMetricRecord row = {task.name, metric->name, static_cast<int64_t>(i), metric->is_binary, {}, {}};
      if (!metric->is_unbounded) {
        row.worst_value = metric->worst_value;
        row.best_value = 1.0;
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<db::CellRecord> ToCells(const Grid& grid) {
  std::vector<db::CellRecord> rows;
  for (const GridCell& cell : grid.cells)
    rows.push_back({cell.key.variant, cell.key.task, cell.key.context_length, cell.planned_count});
  return rows;
}

}  // namespace varifocal
