// Products of a warpgroup in the emulator; what hopper.cc needs of them. Internal to the emulator.
#pragma once

#include <string>

#include "kernels/cuda/emulator/hopper.h"

namespace varifocal::kernels::cuda::emulator {

void BeginProducts();
// What a block left uncommitted or never waited for, empty if nothing.
std::string LeftOverProducts();
// Waits for the 128 threads of the running one's warpgroup.
void MeetWarpgroup();

// Of hopper.cc.
unsigned char* AsyncView();
HopperCounters& MutableHopperCounters();

}  // namespace varifocal::kernels::cuda::emulator
