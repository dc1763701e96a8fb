// The sm90 attention kernels of head dim 128 to 256.

#include "kernels/cuda/attention_sm90.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartSm90<128, IntervalMask>(const AttendParams&, LaunchStream);
template int StartSm90<128, WindowOrGroupMask>(const AttendParams&, LaunchStream);
template int StartSm90<192, IntervalMask>(const AttendParams&, LaunchStream);
template int StartSm90<192, WindowOrGroupMask>(const AttendParams&, LaunchStream);
template int StartSm90<256, IntervalMask>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
