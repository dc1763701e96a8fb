// A library with cuBLASLt's functions, for the test of cublaslt_products.cc; it multiplies nothing.

#include "kernels/cuda/emulator/fake_cublaslt.h"

#include <cublasLt.h>

#include <cstring>

namespace {

// An algorithm is its attributes, in the opaque words of cublasLtMatmulAlgo_t.
struct Algorithm {
  int32_t attributes[8];
  int32_t splits;
  int32_t scratch;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

varifocal::kernels::cuda::fake::CublasLt state;

// Attributes by their place in Algorithm::attributes.
int PlaceOf(cublasLtMatmulAlgoConfigAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return 0;
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      return 1;
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      return 2;
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
      return 3;
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
      return 4;
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
      return 5;
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return 6;
    default:
      return -1;
  }
}

Algorithm Read(const cublasLtMatmulAlgo_t* from) {
  Algorithm algorithm;
  std::memcpy(&algorithm, from, sizeof algorithm);
  return algorithm;
}

// A handle is the number of its device, counted from 1.
cublasLtHandle_t HandleHere() {
  const size_t device = state.current_device == nullptr ? 0 : state.current_device();
  return reinterpret_cast<cublasLtHandle_t>(device + 1);
}

}  // namespace

extern "C" {

varifocal::kernels::cuda::fake::CublasLt* FakeCublasLt() { return &state; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = HandleHere();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
size_t cublasLtGetVersion() { return 130100; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t, cudaDataType_t) {
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(&state);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                                              size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType, uint64_t, uint64_t, int64_t) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(&state);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(&state);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    std::memcpy(&state.scratch_bytes, value, sizeof state.scratch_bytes);
  }
  return CUBLAS_STATUS_SUCCESS;
}
// The first splits K, the second takes scratch memory whatever was asked for, the third keeps a row's bits and asks for
// a counter, the fourth keeps them too.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  const Algorithm all[] = {{{11}, 4, 0}, {{12}, 1, 1 << 20}, {{13, 20, 3, 1, 0, 2, 5}, 1, 4}, {{14, 7}, 1, 0}};
  if (handle != HandleHere()) return CUBLAS_STATUS_INVALID_VALUE;
  *count = state.suggestions;
  for (int i = 0; i < state.suggestions; ++i) {
    results[i] = {};
    std::memcpy(&results[i].algo, &all[i], sizeof all[i]);
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  result->workspaceSize = Read(algorithm).scratch;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  const Algorithm made{{id}, 1, 0};
  std::memcpy(algorithm, &made, sizeof made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t*) {
  const Algorithm from = Read(algorithm);
  const int place = PlaceOf(attribute);
  const int32_t number = attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? from.splits
                         : place >= 0                                 ? from.attributes[place]
                                                                      : 0;
  std::memcpy(value, &number, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  Algorithm changed = Read(algorithm);
  std::memcpy(&changed.attributes[PlaceOf(attribute)], value, bytes);
  std::memcpy(algorithm, &changed, sizeof changed);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t, const void*, const void*,
                              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t, cudaStream_t) {
  if (handle != HandleHere()) return CUBLAS_STATUS_INVALID_VALUE;
  ++state.products;
  state.last_algorithm = Read(algorithm).attributes[0];
  return static_cast<cublasStatus_t>(state.status);
}

}  // extern "C"
