#include "kernels/cuda/cudart_graph.h"

#include <vector>

#include "kernels/cuda/cudart_error.h"
#include "kernels/cuda/device_launch.h"

namespace varifocal::kernels::cuda {
namespace {

class CudartGraph final : public LaunchGraph {
 public:
  ~CudartGraph() override {
    if (executable_ != nullptr) Cleared(cudaGraphExecDestroy(executable_));
    if (graph_ != nullptr) Cleared(cudaGraphDestroy(graph_));
  }

  int Make(const LaunchList& launches) {
    if (const int code = Cleared(cudaGetDevice(&device_)); code != 0) return code;
    if (const int code = Cleared(cudaGraphCreate(&graph_, 0)); code != 0) return code;
    nodes_.resize(launches.size());
    for (size_t i = 0; i < launches.size(); ++i) {
      const KeptLaunch launch = launches[i];
      Node node(launch);
      if (const int code = Cleared(cudaGraphAddKernelNode(&nodes_[i], graph_, nullptr, 0, &node.params)); code != 0) {
        return code;
      }
      if (i == 0) continue;
      bool overlaps = false;
      if (const int code = MayOverlap(launch.kernel, &overlaps); code != 0) return code;
      cudaGraphEdgeData edge{};
      if (overlaps) {
        edge.from_port = cudaGraphKernelNodePortProgrammatic;
        edge.type = cudaGraphDependencyTypeProgrammatic;
      }
      const int code = Cleared(cudaGraphAddDependencies(graph_, &nodes_[i - 1], &nodes_[i], &edge, 1));
      if (code != 0) return code;
    }
    return Cleared(cudaGraphInstantiate(&executable_, graph_, 0));
  }

  int Replace(size_t index, const KeptLaunch& launch) override {
    Enter();
    Node node(launch);
    return Cleared(cudaGraphExecKernelNodeSetParams(executable_, nodes_[index], &node.params));
  }

  int Queue(LaunchStream stream) override {
    Enter();
    return Cleared(cudaGraphLaunch(executable_, static_cast<cudaStream_t>(stream.queue)));
  }

 private:
  // Kernels and the thread's stream are those of the current device, which may be another one by now.
  void Enter() const { Cleared(cudaSetDevice(device_)); }

  struct Node {
    explicit Node(const KeptLaunch& launch) : arguments{const_cast<void*>(launch.params)} {
      const auto [x, y, z] = launch.shape.grid;
      params.func = const_cast<void*>(launch.kernel);
      params.gridDim = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
      params.blockDim = {static_cast<unsigned>(launch.shape.thread_count), 1, 1};
      params.sharedMemBytes = launch.shape.shared_bytes;
      params.kernelParams = arguments;
    }
    Node(const Node&) = delete;
    void* arguments[1];
    cudaKernelNodeParams params{};
  };

  int device_ = 0;
  cudaGraph_t graph_ = nullptr;  // its nodes name those of executable_
  cudaGraphExec_t executable_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace

int MakeCudartGraph(const LaunchList& launches, std::unique_ptr<LaunchGraph>* graph) {
  auto made = std::make_unique<CudartGraph>();
  if (const int code = made->Make(launches); code != 0) return code;
  *graph = std::move(made);
  return 0;
}

}  // namespace varifocal::kernels::cuda
