// Operand lists of wgmma.mma_async for nvcc's inline assembly: N / 8 groups of four accumulators, in the order of FragmentC.
//
// Source:  PTX ISA 9.0, wgmma.mma_async; the operands that follow the accumulators are numbered behind them.
#pragma once

// Placeholders of eight registers each.
#define VF_REGISTERS_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define VF_REGISTERS_1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define VF_REGISTERS_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define VF_REGISTERS_3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define VF_REGISTERS_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define VF_REGISTERS_5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define VF_REGISTERS_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define VF_REGISTERS_7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define VF_REGISTERS_8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define VF_REGISTERS_9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define VF_REGISTERS_10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define VF_REGISTERS_11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define VF_REGISTERS_12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define VF_REGISTERS_13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define VF_REGISTERS_14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define VF_REGISTERS_15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define VF_REGISTERS_OF_8 VF_REGISTERS_0
#define VF_REGISTERS_OF_16 VF_REGISTERS_OF_8 ", " VF_REGISTERS_1
#define VF_REGISTERS_OF_32 VF_REGISTERS_OF_16 ", " VF_REGISTERS_2 ", " VF_REGISTERS_3
#define VF_REGISTERS_OF_64 \
  VF_REGISTERS_OF_32 ", " VF_REGISTERS_4 ", " VF_REGISTERS_5 ", " VF_REGISTERS_6 ", " VF_REGISTERS_7
#define VF_REGISTERS_OF_96 \
  VF_REGISTERS_OF_64 ", " VF_REGISTERS_8 ", " VF_REGISTERS_9 ", " VF_REGISTERS_10 ", " VF_REGISTERS_11
#define VF_REGISTERS_OF_128                                                                            \
  VF_REGISTERS_OF_64 ", " VF_REGISTERS_8 ", " VF_REGISTERS_9 ", " VF_REGISTERS_10 ", " VF_REGISTERS_11 \
                     ", " VF_REGISTERS_12 ", " VF_REGISTERS_13 ", " VF_REGISTERS_14 ", " VF_REGISTERS_15
// The accumulators of columns [8 n, 8 n + 8).
#define VF_SUMS_1(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define VF_SUMS_2(d, n) VF_SUMS_1(d, n), VF_SUMS_1(d, n + 1)
#define VF_SUMS_4(d, n) VF_SUMS_2(d, n), VF_SUMS_2(d, n + 2)
#define VF_SUMS_8(d, n) VF_SUMS_4(d, n), VF_SUMS_4(d, n + 4)
#define VF_SUMS_16(d, n) VF_SUMS_8(d, n), VF_SUMS_8(d, n + 8)
#define VF_SUMS_24(d, n) VF_SUMS_16(d, n), VF_SUMS_8(d, n + 16)
#define VF_SUMS_32(d, n) VF_SUMS_16(d, n), VF_SUMS_16(d, n + 16)
