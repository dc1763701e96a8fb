// The reference's attention: keys and values into pages, weights of a row over the keys it sees, and what they are.
#pragma once

#include "kernels/host_memory.h"
#include "kernels/reference/reference_pool.h"

namespace varifocal::kernels {

void ReferenceQkvRopeWrite(const FlatBatch& flat, const QkvRopeWriteArgs& args);
Error ReferenceAttend(const FlatBatch& flat, const AttendArgs& args);
void ReferenceInspectAttention(const FlatBatch& flat, const InspectAttentionArgs& args);

}  // namespace varifocal::kernels
