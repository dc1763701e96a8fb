// Time and memory of this process and of others, from the operating system.
//
// Threads: any.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/clock.h"
#include "tests/support/process.h"

namespace varifocal {

struct Cost {
  double seconds = 0, cpu_seconds = 0;  // wall time; user and system time of all threads
};

inline double CpuSeconds(const rusage& usage) {
  const auto seconds = [](const timeval& time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Of another process, so far; the running program's name must be without blanks.
inline double CpuSeconds(pid_t pid) {
  const std::string line = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const std::vector<std::string> fields = absl::StrSplit(line, ' ');
  double user = 0, system = 0;
  VF_CHECK(fields.size() > 14 && absl::SimpleAtod(fields[13], &user) && absl::SimpleAtod(fields[14], &system));
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The peak of the resident set, which ResetPeak sets to its present size.
inline int64_t PeakBytes(pid_t pid) {
  const std::string status = ReadFile(absl::StrCat("/proc/", pid, "/status"));
  const size_t at = status.find("VmHWM:");
  VF_CHECK(at != std::string::npos);
  return std::atoll(status.c_str() + at + 6) * 1024;
}
inline void ResetPeak(pid_t pid) { WriteFile(absl::StrCat("/proc/", pid, "/clear_refs"), "5"); }

// Of this process, from the object's construction.
class Stopwatch {
 public:
  Cost Read() const { return {1e-6 * (Clock::Real().MonotonicMicros() - start_us_), Cpu() - start_cpu_}; }

 private:
  static double Cpu() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return CpuSeconds(usage);
  }
  const int64_t start_us_ = Clock::Real().MonotonicMicros();
  const double start_cpu_ = Cpu();
};

}  // namespace varifocal
