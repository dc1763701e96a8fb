#include "server/process_usage.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace varifocal {
namespace {

int64_t CountEntries(const char* directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory), closedir);
  if (open == nullptr) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(open.get())) count += entry->d_name[0] != '.';
  return count;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  long resident_pages = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> statm(std::fopen("/proc/self/statm", "r"), std::fclose);
  if (statm != nullptr && std::fscanf(statm.get(), "%*s %ld", &resident_pages) == 1) {
    usage.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  }
  usage.descriptor_count = CountEntries("/proc/self/fd") - 1;  // without the one that reads the directory
  usage.thread_count = CountEntries("/proc/self/task");
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.descriptors_max = limit.rlim_cur;
  rusage used = {};
  if (getrusage(RUSAGE_SELF, &used) == 0) {
    const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
    usage.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  }
  return usage;
}

int64_t FileBytes(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

}  // namespace varifocal
