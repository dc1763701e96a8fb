// Memory limits of control groups: a container's, and those of a systemd unit and the slices above it.
//
// Both versions are read. Of version 2 every group from the process's own up to the root of the mount counts, of version
// 1 likewise in the memory hierarchy; a group that the mount does not show (a container's view) is passed over.
//
// Source: kernel documentation, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
#pragma once

#include <string>

#include "kernels/backend.h"

namespace varifocal::kernels {

// `info` with the smallest limit as the total, and no more free than any group leaves. `memberships` is a file like
// /proc/self/cgroup, `mount` a folder like /sys/fs/cgroup.
MemoryInfo LimitByCgroups(MemoryInfo info, const std::string& memberships, const std::string& mount);

}  // namespace varifocal::kernels
