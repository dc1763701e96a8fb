// The sm90 attention kernels of head dim 64 to 112.

#include "kernels/cuda/attention_sm90.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartSm90<64, IntervalMask>(const AttendParams&, LaunchStream);
template int StartSm90<64, WindowOrGroupMask>(const AttendParams&, LaunchStream);
template int StartSm90<80, IntervalMask>(const AttendParams&, LaunchStream);
template int StartSm90<80, WindowOrGroupMask>(const AttendParams&, LaunchStream);
template int StartSm90<96, IntervalMask>(const AttendParams&, LaunchStream);
template int StartSm90<96, WindowOrGroupMask>(const AttendParams&, LaunchStream);
template int StartSm90<112, IntervalMask>(const AttendParams&, LaunchStream);
template int StartSm90<112, WindowOrGroupMask>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
