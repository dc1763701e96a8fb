// Code compiled for more instructions than the rest of the program: VF_BEGIN_TARGET("avx2,fma"), then the headers of the
// kernels, then VF_END_TARGET.
//
// Standard headers, and those shared with other files, are included here, before the target changes: their inline functions
// must not be built for instructions that another machine lacks.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/kernel_table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define VF_TARGET_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define VF_BEGIN_TARGET(features) \
  VF_TARGET_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define VF_END_TARGET VF_TARGET_PRAGMA(clang attribute pop)
#else
#define VF_BEGIN_TARGET(features)    \
  VF_TARGET_PRAGMA(GCC push_options) \
  VF_TARGET_PRAGMA(GCC target(features))
#define VF_END_TARGET VF_TARGET_PRAGMA(GCC pop_options)
#endif
