// Memory limits of control groups: a container's, and those of a systemd unit and the slices above it.
//
// Both versions are supported: every group from the process's own up to the root of the mount (version 2) or of the
// memory hierarchy (version 1); groups not visible in the mount (inside a container) are skipped.
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
