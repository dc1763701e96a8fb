// The device's sources, compiled for the emulator.
#define VF_EMULATE 1

#include "kernels/cuda/fused_kernels.cu"
