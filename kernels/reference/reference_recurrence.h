// The reference backend's layers with a recurrent state: the formulas of recurrence.h in float64.
#pragma once

#include "kernels/host_memory.h"

namespace varifocal::kernels {

Error RunReferenceRecurrence(const FlatBatch& flat, const RecurArgs& args);

}  // namespace varifocal::kernels
