// Attention kernels of head dim 64, 80, 96.

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_prefill.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartPrefill<64>(const AttendParams&, LaunchStream);
template int StartDecode<64>(const AttendParams&, LaunchStream);
template int StartPrefill<80>(const AttendParams&, LaunchStream);
template int StartDecode<80>(const AttendParams&, LaunchStream);
template int StartPrefill<96>(const AttendParams&, LaunchStream);
template int StartDecode<96>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
