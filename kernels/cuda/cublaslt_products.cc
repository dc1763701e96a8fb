#include "kernels/cuda/cublaslt_products.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/cudart_error.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr int kPlanRows = 4096;
constexpr int kCheckedRows[] = {1, 8, 128, 1024, 8192, 32768};
constexpr int kSuggestions = 16;
// Steps whose suggestions are candidates for recording: tiles for few rows are suggested for few.
constexpr int kSuggestedRows[] = {kPlanRows, 8192, 1024, 256, 64, 8};
// Seen of cuBLASLt 13.1.0 on an H100: algorithms report 4 bytes of scratch memory where the tiles are many, and run
// without it, with a row's bits the same for 13 numbers of rows from 1 to 4,096 and for 8,192, and for prompts of 16,384
// rows. The sums of a single tile that is shared by blocks need more than this.
constexpr size_t kCounterBytes = 256;

// The functions used, with their own types.
struct Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoCheck) check;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) config_set;
  decltype(&cublasLtMatmulAlgoInit) algo_init;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
};

template <typename Function>
bool Find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

bool Load(Library& library) {
  const char* named = std::getenv("VARIFOCAL_CUBLASLT");
  void* handle = nullptr;
  if (named != nullptr) {
    handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
  } else {
    for (const char* name : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"}) {
      if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (handle == nullptr) return false;
  return Find(handle, "cublasLtCreate", library.create) && Find(handle, "cublasLtDestroy", library.destroy) &&
         Find(handle, "cublasLtGetVersion", library.version) && Find(handle, "cublasLtMatmul", library.matmul) &&
         Find(handle, "cublasLtMatmulAlgoCheck", library.check) &&
         Find(handle, "cublasLtMatmulAlgoConfigGetAttribute", library.config) &&
         Find(handle, "cublasLtMatmulAlgoConfigSetAttribute", library.config_set) &&
         Find(handle, "cublasLtMatmulAlgoInit", library.algo_init) &&
         Find(handle, "cublasLtMatmulAlgoGetHeuristic", library.heuristic) &&
         Find(handle, "cublasLtMatmulDescCreate", library.desc_create) &&
         Find(handle, "cublasLtMatmulDescDestroy", library.desc_destroy) &&
         Find(handle, "cublasLtMatmulDescSetAttribute", library.desc_set) &&
         Find(handle, "cublasLtMatrixLayoutCreate", library.layout_create) &&
         Find(handle, "cublasLtMatrixLayoutDestroy", library.layout_destroy) &&
         Find(handle, "cublasLtMatmulPreferenceCreate", library.preference_create) &&
         Find(handle, "cublasLtMatmulPreferenceDestroy", library.preference_destroy) &&
         Find(handle, "cublasLtMatmulPreferenceSetAttribute", library.preference_set);
}

cudaDataType_t OutputType(const ProductPlan& plan) { return plan.type == ProductType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

// cuBLAS is column-major: out^T [N, M] = (weight^T)^T x^T, with row lengths as leading dimensions.
struct Layouts {
  Layouts(const Library& library, const ProductPlan& plan, int rows) : library(library) {
    const cudaDataType_t out_type = OutputType(plan);
    library.layout_create(&weight, CUDA_R_16BF, plan.inner, plan.outputs, plan.weight_stride);
    library.layout_create(&x, CUDA_R_16BF, plan.inner, rows, plan.inner);
    library.layout_create(&out, out_type, plan.outputs, rows, plan.outputs);
  }
  ~Layouts() {
    for (cublasLtMatrixLayout_t layout : {weight, x, out}) library.layout_destroy(layout);
  }
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;
  const Library& library;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
};

class CublasLt final : public ProductLibrary {
 public:
  CublasLt(const Library& library, cudaStream_t stream, int capability, std::span<const RecordedPlan> recorded)
      : library_(library), stream_(stream), capability_(capability), recorded_(recorded) {}
  ~CublasLt() override {
    if (desc_ != nullptr) library_.desc_destroy(desc_);
    if (handle_ != nullptr) library_.destroy(handle_);
  }

  bool Open() {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    return Cleared(cudaGetDevice(&device_)) == cudaSuccess && library_.create(&handle_) == CUBLAS_STATUS_SUCCESS &&
           library_.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           library_.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed) ==
               CUBLAS_STATUS_SUCCESS;
  }

  // The recorded plans are part of it: they decide which bits this version computes.
  std::string name() const override {
    return "cublasLt" + std::to_string(library_.version()) + PlansTag(recorded_, capability_, library_.version());
  }

  int MakePlan(const ProductPlan& plan) override {
    Enter();
    std::vector<Range> ranges = Recorded(plan);
    if (ranges.empty()) {
      cublasLtMatmulAlgo_t algorithm;
      if (!FirstOf(plan, &algorithm)) return -1;
      ranges.push_back({1, algorithm});
    }
    return Keep({plan, std::move(ranges)});
  }

  std::vector<int> Candidates(const ProductPlan& plan) override {
    Enter();
    std::vector<int> found;
    std::vector<std::string> known;
    for (const int rows : kSuggestedRows) {
      for (const cublasLtMatmulAlgo_t& algorithm : Suggestions(plan, rows)) {
        const std::string row = RowText(RowOf(plan, algorithm));
        if (std::find(known.begin(), known.end(), row) != known.end()) continue;
        known.push_back(row);
        if (Keeps(plan, algorithm)) found.push_back(Keep({plan, {{1, algorithm}}}));
      }
    }
    return found;
  }

  std::string PlanRow(int index, int rows_from) const override {
    const Known& known = PlanAt(index);
    RecordedPlan row = RowOf(known.plan, known.ranges[0].algorithm);
    row.rows_from = rows_from;
    return RowText(row);
  }

  int Multiply(int index, int rows, const void* x, const void* weight, float alpha, float beta, void* out) override {
    Enter();
    const Known& known = PlanAt(index);
    const Layouts layouts(library_, known.plan, rows);
    const cublasStatus_t status =
        library_.matmul(handle_, desc_, &alpha, weight, layouts.weight, x, layouts.x, &beta, out, layouts.out, out,
                        layouts.out, &known.AlgorithmFor(rows), nullptr, 0, stream_);
    if (status == CUBLAS_STATUS_SUCCESS) return 0;
    // The library has a CUDA runtime of its own, whose error is not in our slot: the stream has a fault of the device.
    const cudaError_t fault = cudaStreamQuery(stream_);
    if (Cleared(fault) != cudaSuccess && fault != cudaErrorNotReady) return fault;
    return -static_cast<int>(status);
  }

  std::string PlanText(int index) const override {
    const Known& known = PlanAt(index);
    std::string text = std::to_string(known.plan.outputs) + "x" + std::to_string(known.plan.inner) +
                       (known.plan.type == ProductType::kF32 ? " f32" : " bf16");
    for (const Range& range : known.ranges) {
      const RecordedPlan row = RowOf(known.plan, range.algorithm);
      if (range.rows_from > 1) text += "; from " + std::to_string(range.rows_from) + " rows";
      for (int i = 0; i < kPlanAttributeCount; ++i) {
        text += std::string(i == 0 ? ": " : ", ") + kPlanAttributeNames[i] + " " + std::to_string(row.attributes[i]);
      }
    }
    return text;
  }

  std::string StatusText(int status) const override {
    return "cuBLASLt status " + std::to_string(status) +
           (status == CUBLAS_STATUS_NOT_SUPPORTED      ? ", not supported"
            : status == CUBLAS_STATUS_EXECUTION_FAILED ? ", execution failed"
            : status == CUBLAS_STATUS_INVALID_VALUE    ? ", invalid value"
            : status == CUBLAS_STATUS_ALLOC_FAILED     ? ", allocation failed"
                                                       : "");
  }

 private:
  struct Range {
    int rows_from;
    cublasLtMatmulAlgo_t algorithm;
  };
  struct Known {
    ProductPlan plan;
    std::vector<Range> ranges;  // by rising rows_from

    const cublasLtMatmulAlgo_t& AlgorithmFor(int rows) const {
      size_t at = ranges.size() - 1;
      while (at > 0 && ranges[at].rows_from > rows) --at;
      return ranges[at].algorithm;
    }
  };

  int Keep(Known known) {
    MutexLock lock(mutex_);
    plans_.push_back(std::move(known));
    return std::ssize(plans_) - 1;
  }

  // A handle serves the device that was current when it was made.
  void Enter() const { Cleared(cudaSetDevice(device_)); }

  // Plans are only added, so it stays valid.
  const Known& PlanAt(int index) const {
    MutexLock lock(mutex_);
    return plans_[index];
  }

  // Attributes in the order of kPlanAttributeNames; stages and later ones are optional in some algorithms.
  static constexpr cublasLtMatmulAlgoConfigAttributes_t kAttributes[kPlanAttributeCount] = {
      CUBLASLT_ALGO_CONFIG_ID,
      CUBLASLT_ALGO_CONFIG_TILE_ID,
      CUBLASLT_ALGO_CONFIG_STAGES_ID,
      CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
      CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,
      CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID,
      CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID};
  // The inner and cluster shapes are 16 bits wide, the others 32.
  static size_t WidthOf(int attribute) { return attribute >= 5 ? sizeof(uint16_t) : sizeof(int32_t); }

  RecordedPlan RowOf(const ProductPlan& plan, const cublasLtMatmulAlgo_t& algorithm) const {
    RecordedPlan row{capability_, library_.version(), plan.outputs, plan.inner, plan.type};
    for (int i = 0; i < kPlanAttributeCount; ++i) {
      int32_t wide = 0;
      uint16_t narrow = 0;
      size_t written = 0;
      void* to = WidthOf(i) == sizeof narrow ? static_cast<void*>(&narrow) : &wide;
      library_.config(&algorithm, kAttributes[i], to, WidthOf(i), &written);
      row.attributes[i] = WidthOf(i) == sizeof narrow ? narrow : wide;
    }
    return row;
  }

  // The recorded algorithms for this shape on this device and version of the library; none if one of them is refused.
  std::vector<Range> Recorded(const ProductPlan& plan) const {
    std::vector<Range> ranges;
    const cudaDataType_t out = OutputType(plan);
    for (const RecordedPlan& row : PlansOf(recorded_, capability_, library_.version(), plan)) {
      Range range{row.rows_from, {}};
      if (library_.algo_init(handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, out, out,
                             row.attributes[0], &range.algorithm) != CUBLAS_STATUS_SUCCESS) {
        return {};
      }
      for (int i = 1; i < kPlanAttributeCount; ++i) {
        const auto narrow = static_cast<uint16_t>(row.attributes[i]);
        const int32_t wide = row.attributes[i];
        const void* from = WidthOf(i) == sizeof narrow ? static_cast<const void*>(&narrow) : &wide;
        library_.config_set(&range.algorithm, kAttributes[i], from, WidthOf(i));
      }
      if (!Keeps(plan, range.algorithm)) return {};
      ranges.push_back(range);
    }
    return ranges;
  }

  // The first suggestion for kPlanRows rows that keeps a row's bits for any number of rows.
  bool FirstOf(const ProductPlan& plan, cublasLtMatmulAlgo_t* algorithm) const {
    for (const cublasLtMatmulAlgo_t& suggested : Suggestions(plan, kPlanRows)) {
      if (!Keeps(plan, suggested)) continue;
      *algorithm = suggested;
      return true;
    }
    return false;
  }

  std::vector<cublasLtMatmulAlgo_t> Suggestions(const ProductPlan& plan, int rows) const {
    cublasLtMatmulHeuristicResult_t found[kSuggestions];
    int count = 0;
    cublasLtMatmulPreference_t preference;
    if (library_.preference_create(&preference) != CUBLAS_STATUS_SUCCESS) return {};
    const uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE, alignment = 16;
    const size_t no_scratch = 0;
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      library_.preference_set(preference, attribute, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, no_scratch);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_reduction);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(attribute, alignment);
    }
    {
      const Layouts layouts(library_, plan, rows);
      if (library_.heuristic(handle_, desc_, layouts.weight, layouts.x, layouts.out, layouts.out, preference,
                             kSuggestions, found, &count) != CUBLAS_STATUS_SUCCESS) {
        count = 0;
      }
    }
    library_.preference_destroy(preference);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i) {
      if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[i].algo);
    }
    return algorithms;
  }

  // No split of K, no scratch memory for sums (blocks without shared global memory cannot split K in any form, stream-K
  // included), and valid for any number of rows.
  bool Keeps(const ProductPlan& plan, const cublasLtMatmulAlgo_t& algorithm) const {
    int32_t splits = 1;
    uint32_t reduction = 0;
    size_t written = 0;
    if (library_.config(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits, &written) !=
            CUBLAS_STATUS_SUCCESS ||
        splits > 1 ||
        library_.config(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof reduction, &written) !=
            CUBLAS_STATUS_SUCCESS ||
        reduction != CUBLASLT_REDUCTION_SCHEME_NONE) {
      return false;
    }
    for (const int rows : kCheckedRows) {
      const Layouts layouts(library_, plan, rows);
      cublasLtMatmulHeuristicResult_t result;
      if (library_.check(handle_, desc_, layouts.weight, layouts.x, layouts.out, layouts.out, &algorithm, &result) !=
              CUBLAS_STATUS_SUCCESS ||
          result.workspaceSize > kCounterBytes) {
        return false;
      }
    }
    return true;
  }

  const Library library_;
  const cudaStream_t stream_;
  const int capability_;
  const std::span<const RecordedPlan> recorded_;
  int device_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  mutable Mutex mutex_;
  std::deque<Known> plans_ VF_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ProductLibrary> OpenCublasLt(LaunchStream stream, int capability,
                                             std::span<const RecordedPlan> recorded) {
  Library library;
  if (!Load(library)) return nullptr;
  auto products = std::make_unique<CublasLt>(library, static_cast<cudaStream_t>(stream.queue), capability, recorded);
  if (!products->Open()) return nullptr;
  return products;
}

}  // namespace varifocal::kernels::cuda
