// The functions of the CUDA runtime that this backend calls, in host memory, with the runtime's error semantics: a failed
// call leaves its code in a last-error slot until cudaGetLastError reads it, and a fault of the device fails every call.
// Memory, events, graphs and streams belong to the device that was current when they were made, and are refused on another.
// Linked in place of libcudart by the tests of cudart_runtime.cc, device_launch.cc, device_turns.cc and cublaslt_products.cc.
//
// Threads: any; what is read of the machine while others call is guarded by LogSize and Log alone.
#pragma once

#include <functional>
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

// What was queued or waited for, in the order of the calls.
struct Op {
  enum Kind { kLaunch, kRecord, kFollow, kHostWait, kHostWaitForStream } kind = kLaunch;
  int stream = 0;    // kHostWait: 0
  int event = 0;     // of all but launches
  int argument = 0;  // of a launch
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
  std::map<std::string, void*> driver_functions;
  int ptx_version = 90;                            // of every kernel
  int graphs = 0;                                  // and executable ones: those that exist
  std::vector<int> event_devices;                  // of those made so far, which are numbered from 1
  std::vector<int> priorities;                     // of the streams made so far, which are numbered from 1
  std::vector<int> stream_devices;                 // of the same
  std::function<void(const std::string&)> before;  // called with the name of each function that is called, before it
};
Cudart& Machine();
int CurrentDevice();  // of the calling thread
// Operations that succeeded since Reset.
size_t LogSize();
std::vector<Op> Log();
// A stream's number in the log: of those of threads a number from kThreadStreams on.
inline constexpr int kThreadStreams = 1000;
// As at first, except that kernels keep the shared memory they were allowed, as in a process.
void Reset();

}  // namespace varifocal::kernels::cuda::fake
