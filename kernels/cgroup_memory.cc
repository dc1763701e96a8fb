#include "kernels/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace varifocal::kernels {
namespace {

struct Files {
  const char* limit;
  const char* used;
  const char* droppable;  // in memory.stat: file pages that the kernel may drop
};
constexpr Files kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Files kVersion2 = {"memory.max", "memory.current", "inactive_file"};

// A file with one number; "max" and a missing file count as 0.
size_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  size_t number = 0;
  return file >> number ? number : 0;
}

size_t NumberAfter(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  for (size_t number = 0; file >> word >> number;) {
    if (word == key) return number;
  }
  return 0;
}

void LimitByGroup(const std::string& group, const Files& files, MemoryInfo& info) {
  const size_t limit = NumberIn(group + "/" + files.limit);
  // Version 1 writes "no limit" as the largest number of whole pages.
  if (limit == 0 || limit >= info.total_bytes) return;
  const size_t used = NumberIn(group + "/" + files.used);
  const size_t droppable = NumberAfter(group + "/memory.stat", files.droppable);
  info.total_bytes = limit;
  info.free_bytes = std::min(info.free_bytes, limit - std::min(limit, used - std::min(used, droppable)));
}

// Each group is compared with the machine, not with the groups inside it: a larger limit that is nearly exhausted may
// leave less free than a smaller inner one.
void LimitByGroups(std::string path, const std::string& mount, const Files& files, MemoryInfo& info) {
  const size_t machine_bytes = info.total_bytes;
  size_t total_bytes = machine_bytes;
  for (bool is_root = false; !is_root;) {
    is_root = path.empty() || path == "/";
    MemoryInfo here = {machine_bytes, info.free_bytes};
    LimitByGroup(mount + (is_root ? "" : path), files, here);
    info.free_bytes = std::min(info.free_bytes, here.free_bytes);
    total_bytes = std::min(total_bytes, here.total_bytes);
    path.resize(is_root ? 0 : path.rfind('/'));
  }
  info.total_bytes = total_bytes;
}

bool HasMemory(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "memory") return true;
  }
  return false;
}

}  // namespace

MemoryInfo LimitByCgroups(MemoryInfo info, const std::string& memberships, const std::string& mount) {
  // "HIERARCHY:CONTROLLERS:PATH"; version 2 is "0::PATH".
  std::ifstream file(memberships);
  bool has_version_2 = false;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (HasMemory(controllers)) {
      LimitByGroups(path, mount + "/memory", kVersion1, info);
    } else if (controllers.empty()) {
      has_version_2 = true;
      LimitByGroups(path, mount, kVersion2, info);
    }
  }
  if (!has_version_2) LimitByGroups("/", mount, kVersion2, info);
  return info;
}

}  // namespace varifocal::kernels
