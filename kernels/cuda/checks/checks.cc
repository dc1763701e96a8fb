#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {

std::vector<NamedCheck> AllChecks() {
  std::vector<NamedCheck> all;
  for (const auto& more :
       {LayoutChecks(), ScheduleChecks(), TileChecks(), EmulatedChecks(), HopperChecks(), Sm90Checks(),
        GatheredChecks(), Sm90ProductChecks(), Sm90HeadsChecks(), DecodeChecks(), DecodeMutantChecks(), AheadChecks(),
        WaitingNormChecks(), PlanChecks(), FaultChecks(), GateChecks(), LoopChecks(), DeviceChecks()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace varifocal::kernels::cuda
