#include "kernels/cuda/cuda_recurrence.h"

#include "base/wide_product.h"

namespace varifocal::kernels::cuda {

Error CheckStates(const RecurrenceShape& shape) {
  if (shape.key_dim <= kRecurrenceKeysMax) return {};
  return {ErrorCode::kUnsupported, "the cuda backend has no kernel for recurrent states of " +
                                       std::to_string(shape.key_dim) + " keys, only for up to " +
                                       std::to_string(kRecurrenceKeysMax)};
}

Result<std::unique_ptr<KvPool>> CudaStatePool::Create(Device& device, const KvShape& shape, int page_count) {
  auto pool = std::make_unique<CudaStatePool>(shape, page_count);
  auto memory =
      device.Allocate(pool->rows_.state_count() * BytesPerPageAndLayer(shape), "making pages of states", true);
  if (!memory.ok()) return memory.error();
  pool->memory_ = std::move(*memory);
  return std::unique_ptr<KvPool>(std::move(pool));
}

Error CudaStatePool::CopyPage(Device& device, int from, int to) {
  VF_CHECK(from >= 0 && from < page_count() && to >= 0 && to < page_count(), "no such page");
  if (Error error = device.Fault(); !error.ok()) return error;
  rows_.CopyPage(from, to);
  const size_t page_bytes = shape_.state_numbers() * sizeof(float);
  unsigned char* pages = memory_.as();
  return device.Check(device.runtime().CopyOnDevice(pages + to * page_bytes, pages + from * page_bytes,
                                                    page_count() * page_bytes, page_bytes, rows_.layer_count()),
                      "copying a state");
}

namespace {

struct ScratchNumbers {
  size_t mixed = 0, gates = 0, outs = 0;
};
ScratchNumbers ScratchOf(const RecurrenceShape& shape, int64_t rows) {
  if (!shape.has_matrices()) return {};
  return {.mixed = WideProduct(rows, shape.channel_count()),
          .gates = WideProduct(rows, 2 * shape.value_head_count),
          .outs = WideProduct(rows, shape.value_width())};
}

}  // namespace

size_t RecurrenceScratchNumbers(const RecurrenceShape& shape, int64_t rows) {
  const ScratchNumbers numbers = ScratchOf(shape, rows);
  return numbers.mixed + numbers.gates + numbers.outs;
}

Error RunRecurrence(Device& device, CudaWorkspace& workspace, const RecurArgs& args) {
  auto& pool = static_cast<CudaStatePool&>(*args.pool);
  const RecurrenceShape& shape = args.shape;
  const int rows = workspace.flat.row_count(), heads = shape.value_head_count;
  VF_CHECK(shape.conv_width <= kConvolutionMax && pool.shape().state_numbers() == shape.state_numbers(),
           "the pool was made for this layer");
  for (const SequenceRows& sequence : workspace.flat.batch.sequences) {
    if (sequence.row_count > 0) pool.rows().PageBefore(sequence, args.page_group, args.layer);
  }
  RecurrenceParams p;
  p.step = workspace.step();
  p.states = pool.states(args.layer);
  p.table_starts = workspace.table_starts(args.page_group);
  p.state_numbers = shape.state_numbers();
  p.tail_numbers = shape.tail_numbers();
  p.has_matrices = shape.has_matrices();
  p.is_delta = shape.kind == RecurrenceKind::kDeltaRule;
  p.gate_first = shape.gate_first;
  p.conv_width = shape.conv_width;
  p.channel_count = shape.channel_count();
  p.input_width = shape.input_width();
  p.norm_group_count = shape.norm_group_count;
  p.key_head_count = shape.key_head_count;
  p.value_head_count = heads;
  p.key_dim = shape.key_dim;
  p.value_dim = shape.value_dim;
  p.x = DeviceData<uint16_t>(args.x, WideProduct(rows, p.input_width));
  p.conv = DeviceData<float>(args.conv, WideProduct(p.conv_width, p.channel_count));
  p.conv_bias = OptionalDeviceData<float>(args.conv_bias, p.channel_count);
  p.out = DeviceData<uint16_t>(args.out, WideProduct(rows, shape.value_width()));
  if (p.has_matrices) {
    p.decay_log = DeviceData<float>(args.decay_log, heads);
    p.decay_bias = DeviceData<float>(args.decay_bias, heads);
    if (!p.is_delta) p.skip = DeviceData<float>(args.skip, heads);
    if (p.norm_group_count > 0) p.norm = DeviceData<float>(args.norm, shape.value_width());
    p.norm_epsilon = args.norm_epsilon;
    p.gate_multiplier = args.gate_multiplier;
    p.step_multiplier = args.step_multiplier;
    p.step_min = shape.step_min;
    const ScratchNumbers numbers = ScratchOf(shape, rows);
    auto scratch = workspace.Products(RecurrenceScratchNumbers(shape, rows) * sizeof(float));
    if (!scratch.ok()) return scratch.error();
    p.mixed = static_cast<float*>(*scratch);
    p.gates = p.mixed + numbers.mixed;
    p.outs = p.gates + numbers.gates;
  }
  Error done = device.Check(device.kernels().recurrence(p, workspace.stream()), "starting a recurrent layer");
  if (!done.ok()) return done;
  for (const SequenceRows& sequence : workspace.flat.batch.sequences) {
    pool.rows().MarkKept(sequence, args.page_group, args.layer);
  }
  return {};
}

}  // namespace varifocal::kernels::cuda
