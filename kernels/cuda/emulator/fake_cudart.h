// The functions of the CUDA runtime that this backend calls, in host memory, with the runtime's error semantics: a failed
// call leaves its code in a last-error slot until cudaGetLastError reads it, and a fault of the device fails every call.
// Memory, events, graphs and streams belong to the device that was current when they were made, and are refused on another.
// Linked in place of libcudart by the test of cudart_runtime.cc, device_launch.cc and cublaslt_products.cc.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace varifocal::kernels::cuda::fake {

struct Launched {
  unsigned grid[3];
  unsigned threads;
  size_t shared_bytes;
  int argument;  // the first int of the parameters
  int device = 0;
  bool overlaps = false;  // launched with programmatic serialization, or behind a programmatic edge
};

struct Cudart {
  int device_count = 1;
  std::map<std::string, int> failures;  // by function: the code of its next call
  int fault = 0;                        // of the device: every call returns it, and no read clears it
  int last_error = 0;
  size_t shared_bytes_max = 99 << 10;
  std::map<std::pair<int, const void*>, size_t> shared_allowed;  // by device and kernel
  std::map<const void*, int> memory;                             // device of each piece
  std::vector<Launched> launches;
  int ptx_version = 90;  // of every kernel
  int graphs = 0;        // and executable ones: those that exist
};
Cudart& Machine();
int CurrentDevice();  // of the calling thread
// As at first, except that kernels keep the shared memory they were allowed, as in a process.
void Reset();

}  // namespace varifocal::kernels::cuda::fake
