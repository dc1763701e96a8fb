// Attention by groups with gathered keys, of head dim 16 to 80.

#include "kernels/cuda/attention_gathered.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {

template int StartGatheredWindow<16>(const AttendParams&, LaunchStream);
template int StartGatheredPass<16>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<32>(const AttendParams&, LaunchStream);
template int StartGatheredPass<32>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<48>(const AttendParams&, LaunchStream);
template int StartGatheredPass<48>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<64>(const AttendParams&, LaunchStream);
template int StartGatheredPass<64>(const AttendParams&, LaunchStream);
template int StartGatheredWindow<80>(const AttendParams&, LaunchStream);
template int StartGatheredPass<80>(const AttendParams&, LaunchStream);

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
