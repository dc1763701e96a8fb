#include "kernels/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/wide_product.h"
#include "kernels/cgroup_memory.h"

namespace varifocal::kernels {

Error OutOfHostMemory(const char* what, size_t bytes) {
  return {ErrorCode::kOutOfMemory,
          std::string(what) + " needs " + std::to_string(bytes) + " bytes of host memory and the system gave none"};
}

Result<std::unique_ptr<Buffer>> HostBuffer::Create(size_t bytes) {
  auto data = AllocateAligned<char>(bytes);
  if (data == nullptr) return OutOfHostMemory("a buffer", bytes);
  return std::unique_ptr<Buffer>(new HostBuffer(std::move(data), bytes));
}

void FlatBatch::Reserve(const StepShape& shape) {
  row_sequences.reserve(shape.row_count_max);
  row_positions.reserve(shape.row_count_max);
  first_rows.reserve(shape.sequence_count_max + 1);
}

Error FlatBatch::Assign(const Batch& from, const StepShape& shape) {
  batch = from;
  row_sequences.clear();
  row_positions.clear();
  first_rows.clear();
  if (std::ssize(from.sequences) > shape.sequence_count_max) {
    return {ErrorCode::kInvalidArgument, "a step of " + std::to_string(from.sequences.size()) +
                                             " sequences exceeds the planned " +
                                             std::to_string(shape.sequence_count_max)};
  }
  for (size_t s = 0; s < from.sequences.size(); ++s) {
    const SequenceRows& sequence = from.sequences[s];
    first_rows.push_back(row_count());
    if (row_count() + static_cast<int64_t>(sequence.row_count) > shape.row_count_max) {
      return {ErrorCode::kInvalidArgument, "a step of " +
                                               std::to_string(row_count() + static_cast<int64_t>(sequence.row_count)) +
                                               " rows exceeds the planned " + std::to_string(shape.row_count_max)};
    }
    if (sequence.first_position + static_cast<int64_t>(sequence.row_count) > shape.context_length_max) {
      return {ErrorCode::kInvalidArgument,
              "a sequence of " + std::to_string(sequence.first_position + static_cast<int64_t>(sequence.row_count)) +
                  " positions exceeds the planned " + std::to_string(shape.context_length_max)};
    }
    if (from.phase == Phase::kDecode && sequence.row_count != 1) {
      return {ErrorCode::kInvalidArgument,
              "a decode step takes one row per sequence, not " + std::to_string(sequence.row_count)};
    }
    for (int32_t i = 0; i < sequence.row_count; ++i) {
      row_sequences.push_back(s);
      row_positions.push_back(sequence.first_position + i);
    }
  }
  first_rows.push_back(row_count());
  for (const auto& mask : from.masks) VF_CHECK(std::ssize(mask) == row_count(), "a mask has one interval per row");
  return {};
}

bool IsCancelled(const Batch& batch) {
  return batch.cancelled != nullptr && batch.cancelled->load(std::memory_order_relaxed);
}

Error CheckWholePrompts(const Batch& batch, const char* what) {
  for (const SequenceRows& sequence : batch.sequences) {
    if (sequence.first_position >= sequence.prompt_row_count) continue;
    if (sequence.first_position != 0 || sequence.row_count < sequence.prompt_row_count) {
      return {ErrorCode::kInvalidArgument, std::string(what) + " needs the prompt of " +
                                               std::to_string(sequence.prompt_row_count) + " rows in one step"};
    }
  }
  return {};
}

Error CheckTauRows(const Batch& batch, TauMean mean) {
  return mean == TauMean::kSequence ? CheckWholePrompts(batch, "tau over the whole sequence") : Error{};
}

Error CancelledError() { return {ErrorCode::kCancelled, "the step was cancelled"}; }

namespace {

// The number after `key` in a file of such lines, times `unit`; 0 when there is none.
size_t NumberAfter(const char* path, const std::string& key, size_t unit) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    size_t number = 0;
    if (word == key && file >> number) return number * unit;
  }
  return 0;
}

}  // namespace

// Memory available without swapping: file pages that can be dropped count as free.
// Limits of control groups apply.
MemoryInfo HostMemory() {
  const size_t page = sysconf(_SC_PAGESIZE);
  MemoryInfo info = {page * sysconf(_SC_PHYS_PAGES), NumberAfter("/proc/meminfo", "MemAvailable:", 1024)};
  if (info.free_bytes == 0) info.free_bytes = page * sysconf(_SC_AVPHYS_PAGES);
  return LimitByCgroups(info, "/proc/self/cgroup", "/sys/fs/cgroup");
}

std::string CpuModelName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown CPU";
}

Result<std::unique_ptr<Buffer>> CreateHostVector(const HostMatrix& vector) {
  const int64_t count = vector.rows * vector.columns;
  auto buffer = HostBuffer::Create(count * sizeof(float));
  if (!buffer.ok()) return buffer;
  float* out = HostData<float>({buffer->get(), 0}, static_cast<size_t>(count));
  WidenRow({vector.dtype, vector.data, 1, count}, 0, out);
  return buffer;
}

Result<int64_t> StackedRows(std::span<const HostMatrix> parts, WeightUse use) {
  int64_t rows = 0;
  for (const HostMatrix& part : parts) {
    if (part.rows <= 0 || part.columns <= 0 || part.columns != parts[0].columns) {
      return Error{ErrorCode::kInvalidArgument, "a weight part of " + std::to_string(part.rows) + " x " +
                                                    std::to_string(part.columns) + " does not stack on " +
                                                    std::to_string(parts[0].columns) + " columns"};
    }
    rows += part.rows;
  }
  if (rows == 0) return Error{ErrorCode::kInvalidArgument, "a weight has no parts"};
  if (use == WeightUse::kGateUp && rows % 2 != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "gate and up have " + std::to_string(rows) + " rows together, an odd number"};
  }
  return rows;
}

std::pair<const HostMatrix*, int64_t> StackedRow(std::span<const HostMatrix> parts, int64_t row) {
  for (const HostMatrix& part : parts) {
    if (row < part.rows) return {&part, row};
    row -= part.rows;
  }
  VF_CHECK(false, "the row lies outside the weight");
  return {nullptr, 0};
}

std::vector<HostMatrix> PartsOfRows(std::span<const HostMatrix> parts, int64_t first, int64_t count) {
  std::vector<HostMatrix> rows;
  for (const HostMatrix& part : parts) {
    const int64_t begin = std::clamp<int64_t>(first, 0, part.rows),
                  end = std::clamp<int64_t>(first + count, 0, part.rows);
    first -= part.rows;
    if (begin == end) continue;
    HostMatrix inside = part;
    inside.data = part.At(begin, 0);
    inside.rows = end - begin;
    rows.push_back(inside);
  }
  return rows;
}

Result<int64_t> RowsOfExpert(std::span<const HostMatrix> parts, int expert_count, WeightUse use) {
  auto rows = StackedRows(parts, use);
  if (!rows.ok()) return rows.error();
  const int64_t of_expert = *rows / expert_count;
  if (of_expert * expert_count != *rows || (use == WeightUse::kGateUp && of_expert % 2 != 0)) {
    return Error{ErrorCode::kInvalidArgument, "a stack of " + std::to_string(*rows) +
                                                  " rows does not hold the weights of " + std::to_string(expert_count) +
                                                  " experts"};
  }
  return of_expert;
}

Result<std::unique_ptr<RopeTable>> HostRopeTable::Create(const RopeTableSpec& spec) {
  const size_t count = WideProduct(spec.position_count, spec.rotary_dim / 2);
  if (spec.rotary_dim <= 0 || spec.rotary_dim % 2 != 0 || spec.cosines.size() != count || spec.sines.size() != count) {
    return Error{ErrorCode::kInvalidArgument, "a rope table of " + std::to_string(spec.position_count) +
                                                  " positions and rotary width " + std::to_string(spec.rotary_dim) +
                                                  " came with " + std::to_string(spec.cosines.size()) +
                                                  " cosines and " + std::to_string(spec.sines.size()) + " sines"};
  }
  auto table = std::make_unique<HostRopeTable>();
  table->cosines_.assign(spec.cosines.begin(), spec.cosines.end());
  table->sines_.assign(spec.sines.begin(), spec.sines.end());
  table->position_count_ = spec.position_count;
  table->rotary_dim_ = spec.rotary_dim;
  return std::unique_ptr<RopeTable>(std::move(table));
}

DrawnToken DrawFromSlot(const LmHeadArgs& args, const HeadRow& row, int64_t vocab) {
  VF_CHECK(row.logits_slot >= 0, "a row that is drawn from has a slot");
  return DrawToken({args.logits + row.logits_slot * vocab, static_cast<size_t>(vocab)}, row.draw);
}

}  // namespace varifocal::kernels
