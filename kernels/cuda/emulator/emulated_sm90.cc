// The device's sources, compiled for the emulator.
#define VF_EMULATE 1

#include "kernels/cuda/attention_sm90_128_256.cu"
#include "kernels/cuda/attention_sm90_64_112.cu"
#include "kernels/cuda/attention_sm90_gathered_64_256.cu"
#include "kernels/cuda/matmul_sm90.cu"
