// Attention kernels of head dim 16, 32, 48.

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_prefill.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartPrefill<16>(const AttendParams&, LaunchStream);
template int StartDecode<16>(const AttendParams&, LaunchStream);
template int StartPrefill<32>(const AttendParams&, LaunchStream);
template int StartDecode<32>(const AttendParams&, LaunchStream);
template int StartPrefill<48>(const AttendParams&, LaunchStream);
template int StartDecode<48>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
