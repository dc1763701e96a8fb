// The device's sources, compiled for the emulator.
#define VF_EMULATE 1

#include "kernels/cuda/attention_gathered_16_80.cu"
#include "kernels/cuda/attention_gathered_96_256.cu"
#include "kernels/cuda/gather_kernels.cu"
