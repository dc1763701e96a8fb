// Prefill attention by groups: the rows of a step from GroupTest::gather_from on.
//
// The keys of a group are listed in order of position, and the group's rows attend to them as to a separate sequence,
// whose pages are collected one at a time. A row's result is merged from disjoint parts: the keys of its window that
// share no group with it, then for each of its groups the group's keys that share no lower group with it. Tiles begin at
// multiples of their size in rank within the group, and parts are merged in that order, so bits depend on the row alone.
//
// Cost:    k^2 / K of the pairs, plus the window's; each block of queries copies the keys and values that it reads, a
//          page at a time. Scratch: 8 k bytes per token of a context, k + 1 partial results per row and head.
// Source:  docs/focus.md; the decomposition into disjoint passes is ours.
#pragma once

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

// False when cancelled. No-op where no row is computed by groups.
bool AttendByGroups(const AttentionCall& call, ThreadPool& pool, CpuWorkspace& workspace);

}  // namespace varifocal::kernels::cpu
