// Attention kernels of head dim 512.

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_prefill.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartPrefill<512, IntervalMask>(const AttendParams&, LaunchStream);
template int StartPrefill<512, WindowOrGroupMask>(const AttendParams&, LaunchStream);
template int StartDecode<512, IntervalMask>(const AttendParams&, LaunchStream);
template int StartDecode<512, WindowOrGroupMask>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
