// What this process uses, from /proc; 0 where it cannot be read.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace varifocal {

struct ProcessUsage {
  int64_t resident_bytes = 0;
  int64_t descriptor_count = 0;
  int64_t descriptors_max = 0;
  int64_t thread_count = 0;
  double cpu_seconds = 0;
};

ProcessUsage ReadProcessUsage();
int64_t FileBytes(const std::string& path);

}  // namespace varifocal
