#include "kernels/cuda/cuda_storage.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cuda/cuda_recurrence.h"
#include "kernels/cuda/cuda_workspace.h"
#include "kernels/group_routing.h"

namespace varifocal::kernels::cuda {
namespace {

static_assert(kPageTokenCount == kPageTokens);

// mma.sync on bf16, cp.async.
constexpr int kCapabilityMin = 80;

// Threads that convert weights; more do not help one copy engine.
constexpr int kLoadThreadsMax = 8;

}  // namespace

CudaStorage::CudaStorage(std::unique_ptr<Runtime> runtime, const BackendOptions& options)
    : device_(std::move(runtime)),
      graphs_(options.cuda_graphs),
      attention_kernel_(options.attention_kernel),
      product_kernel_(options.product_kernel),
      decode_kernels_(options.decode_kernels),
      threads_(std::min(kLoadThreadsMax, options.thread_count > 0 ? options.thread_count : cpu::UsableCores())) {}

Error CudaStorage::Open(int index) {
  if (Error error = device_.Open(index); !error.ok()) return error;
  const DeviceProperties& properties = device_.properties();
  const int capability = properties.major * 10 + properties.minor;
  if (capability < kCapabilityMin) {
    return {ErrorCode::kUnsupported, properties.name + " has compute capability " + std::to_string(properties.major) +
                                         "." + std::to_string(properties.minor) + "; the cuda backend needs 8.0"};
  }
  auto attention = ChooseAttention(attention_kernel_, capability);
  if (!attention.ok()) return attention.error();
  attention_ = *std::move(attention);
  auto products = ChooseProducts(product_kernel_, capability);
  if (!products.ok()) return products.error();
  product_choice_ = *products;
  auto decode = ChooseDecode(decode_kernels_);
  if (!decode.ok()) return decode.error();
  decode_ = *decode;
  ProductLibrary* library = device_.runtime().products();
  // Another library computes other bits, and so do other kernels.
  info_.name = "cuda-" + attention_.name() + "-bf16" + product_choice_.name() +
               (library == nullptr ? "" : "-" + library->name());
  info_.device = properties.name;
  info_.dtype = DType::kBF16;
  info_.thread_count = 1;
  info_.gathers_groups = attention_.gathered;
  info_.gather_costs = attention_.gather_costs();
  info_.notes.push_back("computing in bf16 on cuda:" + std::to_string(index) + ", " + properties.name +
                        ", products by " + (product_choice_.sm90 ? "the kernel sm90, or " : "") +
                        (library == nullptr ? "own kernels" : library->name()));
  if (graphs_) info_.notes.push_back("queueing each decode step as one CUDA graph");
  if (!device_.pinned()) info_.notes.push_back("the system gave no pinned memory; loading will be slower");
  return {};
}

MemoryInfo CudaStorage::memory() const {
  MemoryInfo info;
  if (device_.runtime().Memory(&info.free_bytes, &info.total_bytes) != 0) return {};
  return info;
}

Result<std::unique_ptr<Buffer>> CudaStorage::Allocate(size_t bytes) {
  auto memory = device_.Allocate(bytes, "making a buffer", true);
  if (!memory.ok()) return memory.error();
  return Finished(Result<std::unique_ptr<Buffer>>(std::make_unique<DeviceBuffer>(std::move(*memory))));
}

Error CudaStorage::Write(Slice to, const void* from, size_t bytes) {
  if (Error error = device_.Upload(DeviceData<char>(to, bytes), from, bytes); !error.ok()) return error;
  return device_.Synchronize();
}

Error CudaStorage::Read(void* to, Slice from, size_t bytes) {
  return device_.Download(to, DeviceData<char>(from, bytes), bytes);
}

Error CudaStorage::Zero(Slice slice, size_t bytes) {
  if (Error error = device_.Fault(); !error.ok()) return error;
  return device_.Check(device_.runtime().Fill(DeviceData<char>(slice, bytes), 0, bytes), "clearing a buffer");
}

Result<std::unique_ptr<Buffer>> CudaStorage::CreateVector(const HostMatrix& vector) {
  const int64_t count = vector.rows * vector.columns;
  std::vector<float> values(count);
  WidenRow({vector.dtype, vector.data, 1, count}, 0, values.data());
  auto buffer = Allocate(values.size() * sizeof(float));
  if (!buffer.ok()) return buffer;
  if (Error error = Write({buffer->get(), 0}, values.data(), values.size() * sizeof(float)); !error.ok()) return error;
  return buffer;
}

Result<std::unique_ptr<Weight>> CudaStorage::CreateWeight(std::span<const HostMatrix> parts, WeightUse use) {
  return Finished(CudaWeight::Create(device_, threads_, parts, use));
}

Result<std::unique_ptr<Weight>> CudaStorage::CreateExperts(std::span<const HostMatrix> parts, int expert_count,
                                                           WeightUse use) {
  if (auto rows = RowsOfExpert(parts, expert_count, use); !rows.ok()) return rows.error();
  return Finished(CudaWeight::Create(device_, threads_, parts, use, expert_count));
}

Result<std::unique_ptr<RopeTable>> CudaStorage::CreateRopeTable(const RopeTableSpec& spec) {
  return Finished(CudaRopeTable::Create(device_, spec));
}

Error CudaStorage::CheckShape(const KvShape& shape) const {
  if (shape.holds_states()) return CheckStates(shape.recurrence);
  if (std::find(std::begin(kHeadDims), std::end(kHeadDims), shape.head_dim) == std::end(kHeadDims)) {
    std::string known;
    for (const int dim : kHeadDims) known += (known.empty() ? "" : ", ") + std::to_string(dim);
    return {ErrorCode::kUnsupported, "the cuda backend has no attention kernel for head dim " +
                                         std::to_string(shape.head_dim) + ", only for " + known};
  }
  const size_t needed = AttentionSharedBytes(shape.head_dim), granted = device_.properties().shared_bytes_max;
  if (needed > granted) {
    return {ErrorCode::kUnsupported, "attention of head dim " + std::to_string(shape.head_dim) + " needs " +
                                         std::to_string(needed) + " bytes of shared memory per block, and " +
                                         device_.properties().name + " has " + std::to_string(granted)};
  }
  return {};
}

size_t CudaStorage::KvBytesPerPageAndLayer(const KvShape& shape) const {
  return shape.holds_states() ? CudaStatePool::BytesPerPageAndLayer(shape) : CudaPool::BytesPerPageAndLayer(shape);
}

Result<std::unique_ptr<KvPool>> CudaStorage::CreateKvPool(const KvShape& shape, int page_count) {
  if (Error error = CheckShape(shape); !error.ok()) return error;
  if (shape.holds_states()) return Finished(CudaStatePool::Create(device_, shape, page_count));
  return Finished(CudaPool::Create(device_, shape, page_count));
}

Error CudaStorage::CopyPage(KvPool& pool, int from, int to) {
  if (auto* states = dynamic_cast<CudaStatePool*>(&pool); states != nullptr) {
    return states->CopyPage(device_, from, to);
  }
  return static_cast<CudaPool&>(pool).CopyPage(device_, from, to);
}

Error CudaStorage::ReadPage(const KvPool& pool, int layer, int page, int row_count, float* keys, float* values) {
  const auto& own = static_cast<const CudaPool&>(pool);
  const int dim = own.shape().head_dim, heads = own.shape().kv_head_count;
  std::vector<unsigned char> tiles(heads * HeadPageBytes(dim));
  const unsigned char* from = own.view(layer).tiles + page * tiles.size();
  if (Error error = device_.Download(tiles.data(), from, tiles.size()); !error.ok()) return error;
  for (int row = 0; row < row_count; ++row) {
    for (int head = 0; head < heads; ++head) {
      const unsigned char* tile = tiles.data() + head * HeadPageBytes(dim);
      for (int i = 0; i < dim; ++i) {
        uint16_t key, value;
        std::memcpy(&key, tile + ElementOffset(dim, row, i), sizeof key);
        std::memcpy(&value, tile + TileBytes(dim, kPageTokens) + ElementOffset(dim, row, i), sizeof value);
        *keys++ = WidenBF16(key);
        *values++ = WidenBF16(value);
      }
    }
  }
  return {};
}

Error CudaStorage::ReadGroups(const KvPool& pool, int layer, std::span<const int32_t> pages, int annotation_offset,
                              std::span<uint32_t> groups) {
  const PoolView view = static_cast<const CudaPool&>(pool).view(layer);
  std::vector<char> annotations(view.annotation_stride);
  Error error;
  CopyGroups(
      pages, annotation_offset,
      [&](int32_t page) {
        const auto* from = view.annotations + page * annotations.size();
        if (error.ok()) error = device_.Download(annotations.data(), from, annotations.size());
        return annotations.data();
      },
      groups);
  return error;
}

size_t CudaStorage::WorkspaceBytes(const StepShape& shape) const { return SizesFor(shape, attention_).total_bytes(); }

Result<std::unique_ptr<Workspace>> CudaStorage::CreateWorkspace(const StepShape& shape) {
  return Finished(CudaWorkspace::Create(device_, shape, attention_, decode_));
}

}  // namespace varifocal::kernels::cuda
