// The device's sources, compiled for the emulator.
#define VF_EMULATE 1

#include "kernels/cuda/attention_112_128.cu"
#include "kernels/cuda/attention_16_48.cu"
#include "kernels/cuda/attention_192.cu"
#include "kernels/cuda/attention_256.cu"
#include "kernels/cuda/attention_512.cu"
#include "kernels/cuda/attention_64_96.cu"
