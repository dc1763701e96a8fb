// Attention by groups with gathered keys, of head dim 96 to 256.

#include "kernels/cuda/attention_gathered.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartGatheredWindow<96>(const AttendParams&, LaunchStream);
template int StartGatheredPass<96>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<112>(const AttendParams&, LaunchStream);
template int StartGatheredPass<112>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<128>(const AttendParams&, LaunchStream);
template int StartGatheredPass<128>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<192>(const AttendParams&, LaunchStream);
template int StartGatheredPass<192>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<256>(const AttendParams&, LaunchStream);
template int StartGatheredPass<256>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
