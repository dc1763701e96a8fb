// Passes over gathered keys by the sm90 attention kernel.

#include "kernels/cuda/attention_sm90_gathered.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartGatheredSm90<64>(const AttendParams&, LaunchStream);
template int StartGatheredSm90<80>(const AttendParams&, LaunchStream);
template int StartGatheredSm90<96>(const AttendParams&, LaunchStream);
template int StartGatheredSm90<112>(const AttendParams&, LaunchStream);
template int StartGatheredSm90<128>(const AttendParams&, LaunchStream);
template int StartGatheredSm90<192>(const AttendParams&, LaunchStream);
template int StartGatheredSm90<256>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
