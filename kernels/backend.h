// A device that computes: buffers, packed weights, KV pages, and the fused operations of a transformer's step.
//
// The caller (server/model) iterates over the layers; each line below is one call of a Backend. The layout of Buffers,
// Weights and KV pages is internal to the backend. A step is a batch of rows of several sequences, all in one phase:
// kernels are chosen by phase, never by row count, and a row's bits depend only on its own sequence.
//
//   Embed  [Linear and LayerInputs]
//   per layer:  Norm  [FocalTau]  [RouteGroups]  QkvRopeWrite  Attend  LinearResidual  Norm  LinearGated  LinearResidual
//               (or Mixture in place of the last two)
//               (InspectAttention after Attend; Linear and ApplyGate after it where attention has a gate)
//               (or Linear and Recur in place of QkvRopeWrite and Attend)
//               (latent attention: Linear, NormColumns, then QkvRopeWrite of queries and of keys and values apart)
//               (or LinearGated, Mixture and NormResidual in place of the last two, where both are normed apart)
//               (ApplyGate and LinearNormResidual at the end, of the layer's own inputs)
//               (Linear and CutGated in place of LinearGated; several residual streams: residual_streams.h)
//   LmHead on the rows that need it
//
// A plain MLP has Linear with an activation instead of LinearGated; norms after the blocks are LinearNormResidual
// instead of LinearResidual; parallel blocks have both Norms before both residuals. A Norm that directly follows a
// residual is given to it as `next_norm`: a device may compute both in one launch.
//
// Shapes:  T rows of a step in the order of Batch::sequences; residual stream f32 [T, M]; inputs of matrix products and
//          outputs of attention ("operands") in operand_dtype(): f32, or bf16 in a bf16 backend.
// Errors:  kernels::Error; a step that returned one is discarded. Out-of-range indices are bugs (VF_CHECK).
// Threads: factories may be called from any thread. A Workspace serves one thread at a time; two workspaces may run at
//          the same time over one backend. On a device operations are queued in call order; Read, ReadGroups, LmHead and
//          InspectAttention wait for them.
// Cost:    nothing of size T x T or T x V; no allocation after CreateWorkspace, except of CUDA graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device_objects.h"
#include "kernels/operations.h"
#include "kernels/residual_streams.h"
#include "kernels/shapes.h"
#include "kernels/tensor.h"

namespace varifocal::kernels {

// Use of a weight; determines its packing.
enum class WeightUse { kPlain, kGateUp, kEmbedding, kHead, kEmbeddingAndHead };

struct BackendInfo {
  std::string name;    // recorded as provenance, e.g. "cpu-avx512-f32": device, instruction set or kernel, format
  std::string device;  // in words, e.g. the CPU's model name
  DType dtype = DType::kF32;
  int thread_count = 0;
  std::vector<std::string> notes;  // one sentence each, to be logged once: choices and warnings
  bool gathers_groups = false;     // rows from GroupTest::gather_from on are computed by groups
  GatherCosts gather_costs;        // for GatherFrom
};

struct MemoryInfo {
  size_t total_bytes = 0;
  size_t free_bytes = 0;  // as reported by the device now
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendInfo& info() const = 0;
  virtual DType operand_dtype() const = 0;
  virtual MemoryInfo memory() const = 0;
  // The fatal failure of the device, if any: every later call returns it too.
  virtual Error Fault() const { return {}; }

  // ---- memory ----
  virtual Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;  // zeroed
  virtual Error Write(Slice to, const void* from, size_t bytes) = 0;
  virtual Error Read(void* to, Slice from, size_t bytes) = 0;
  virtual Error Zero(Slice slice, size_t bytes) = 0;

  // A vector [n] as f32: norm weights, biases, tau weights.
  virtual Result<std::unique_ptr<Buffer>> CreateVector(const HostMatrix& vector) = 0;
  // One weight from parts stacked along N (q, k, v; gate, up). Rounded to info().dtype.
  virtual Result<std::unique_ptr<Weight>> CreateWeight(std::span<const HostMatrix> parts, WeightUse use) = 0;
  // The weights of a layer's experts, stacked along N one after the other, all of one size.
  virtual Result<std::unique_ptr<Weight>> CreateExperts(std::span<const HostMatrix> parts, int expert_count,
                                                        WeightUse use) = 0;
  virtual Result<std::unique_ptr<RopeTable>> CreateRopeTable(const RopeTableSpec& spec) = 0;

  // kUnsupported with the head dim, or the width of a state, when there is no kernel for it.
  virtual Error CheckShape(const KvShape& shape) const = 0;
  virtual size_t KvBytesPerPageAndLayer(const KvShape& shape) const = 0;
  virtual Result<std::unique_ptr<KvPool>> CreateKvPool(const KvShape& shape, int page_count) = 0;
  // Copies page `from` to page `to` in all layers of the pool; queued like the operations of a step. Branches of a
  // sequence that continue from a partial page use copies.
  virtual Error CopyPage(KvPool& pool, int from, int to) = 0;
  // Rows [0, row_count) of a page as f32 [row_count, K, D] each; for tests and inspection.
  virtual Error ReadPage(const KvPool& pool, int layer, int page, int row_count, float* keys, float* values) = 0;
  // What RouteGroups wrote for tokens 0, 1, .. of the sequence that has these pages, a bit a group; groups.size() of
  // them. It waits for the operations before it. kUnsupported where there is no RouteGroups.
  virtual Error ReadGroups(const KvPool& /*pool*/, int /*layer*/, std::span<const int32_t> /*pages*/,
                           int /*annotation_offset*/, std::span<uint32_t> /*groups*/) {
    return {ErrorCode::kUnsupported, "the backend has no learned groups"};
  }

  // Bytes CreateWorkspace will allocate; counted at admission with weights, pages and the caller's own buffers.
  virtual size_t WorkspaceBytes(const StepShape& shape) const = 0;
  virtual Result<std::unique_ptr<Workspace>> CreateWorkspace(const StepShape& shape) = 0;

  // ---- a step: Begin, then the operations in order ----
  virtual Error BeginStep(Workspace& workspace, const Batch& batch) = 0;
  virtual void EndStep(Workspace& /*workspace*/) {}
  // Rows that a prompt's next step should have at most, from this position on, so that an engine of the same device that
  // generates now does not wait long.
  virtual int64_t StepRowsMax(const Workspace& /*workspace*/, int64_t /*first_position*/) const {
    return std::numeric_limits<int64_t>::max();
  }
  virtual Error Embed(Workspace& workspace, const EmbedArgs& args) = 0;
  // The operations from here to LmHead may be queued together, by LmHead: nothing that they write is read before, and
  // nothing that they read is written. The next BeginStep drops them.
  virtual void QueueWithHead(Workspace& /*workspace*/) {}
  // Zero as an operation of the step, which may be queued with the others; whole f32.
  virtual Error Clear(Workspace& /*workspace*/, Slice slice, size_t bytes) { return Zero(slice, bytes); }
  virtual Error Norm(Workspace& workspace, const NormArgs& args) = 0;
  virtual Error FocalTau(Workspace& workspace, const FocalTauArgs& args) = 0;
  virtual Error RouteGroups(Workspace& workspace, const RouteGroupsArgs& args) = 0;
  virtual Error QkvRopeWrite(Workspace& workspace, const QkvRopeWriteArgs& args) = 0;
  virtual Error Attend(Workspace& workspace, const AttendArgs& args) = 0;
  virtual Error Linear(Workspace& workspace, const LinearArgs& args) = 0;
  virtual Error LinearResidual(Workspace& workspace, const LinearResidualArgs& args) = 0;
  virtual Error LinearNormResidual(Workspace& workspace, const LinearNormResidualArgs& args) = 0;
  virtual Error NormResidual(Workspace& workspace, const NormResidualArgs& args) = 0;
  virtual Error LayerInputs(Workspace& workspace, const LayerInputsArgs& args) = 0;
  virtual Error MatchStreams(Workspace& workspace, const MatchStreamsArgs& args) = 0;
  virtual Error PredictStreams(Workspace& workspace, const PredictStreamsArgs& args) = 0;
  virtual Error CorrectStreams(Workspace& workspace, const CorrectStreamsArgs& args) = 0;
  virtual Error AddToStreams(Workspace& workspace, const AddToStreamsArgs& args) = 0;
  virtual Error CutGated(Workspace& workspace, const CutGatedArgs& args) = 0;
  virtual Error LinearGated(Workspace& workspace, const LinearGatedArgs& args) = 0;
  virtual Error Mixture(Workspace& workspace, const MixtureArgs& args) = 0;
  virtual Error NormColumns(Workspace& workspace, const NormColumnsArgs& args) = 0;
  virtual Error ApplyGate(Workspace& workspace, const ApplyGateArgs& args) = 0;
  virtual Error Recur(Workspace& workspace, const RecurArgs& args) = 0;
  virtual Error LmHead(Workspace& workspace, const LmHeadArgs& args) = 0;
  // After the Attend of the same layer, before the next QkvRopeWrite.
  virtual Error InspectAttention(Workspace& workspace, const InspectAttentionArgs& args) = 0;

 protected:
  // The norm after a residual, of a backend that computes it apart; `done` is the residual's error.
  Error NextNorm(Workspace& workspace, const NormArgs* next_norm, Error done) {
    return done.ok() && next_norm != nullptr ? Norm(workspace, *next_norm) : done;
  }
};

// ---- the table of backends (backends.cc) ----

struct BackendOptions {
  std::string device = "auto";  // auto, cpu, reference, cuda:N
  DType dtype = DType::kF32;
  int thread_count = 0;          // 0: one per core this process may use
  std::string cpu_isa = "auto";  // auto, portable, avx2, avx512, avx512bf16 (bf16 alone)
  bool cuda_graphs = false;      // a decode step is queued as one graph; same bits
  // Of a CUDA device's prefill: auto, mma or sm90 (cuda/attention_choice.h); other bits.
  std::string attention_kernel = "auto";
  // And its products: auto, library or sm90 (cuda/product_choice.h); other bits.
  std::string product_kernel = "auto";
  // Of a CUDA device's decode steps of a few rows: auto, fused or separate (cuda/decode_choice.h); same bits.
  std::string decode_kernels = "auto";
  std::vector<std::string> notes;  // prefix of BackendInfo::notes

  auto operator<=>(const BackendOptions&) const = default;
};

// The default number format of a device: bf16 on a CUDA device ("auto" included, where there is one), else
// f32.
DType DefaultDType(const std::string& device);

// kUnsupported names what is missing: a device, an instruction set, a number format.
Result<std::unique_ptr<Backend>> CreateBackend(const BackendOptions& options);
// The device that `auto` means here for these options; any other device is itself.
std::string ChosenDevice(const BackendOptions& options);

}  // namespace varifocal::kernels
