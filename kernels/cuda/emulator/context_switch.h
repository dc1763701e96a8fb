// User-space context switch: six registers and a stack pointer on x86-64, ucontext elsewhere.
//
// Threads: a context is used by one host thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace varifocal::kernels::cuda::emulator {

struct FiberContext {
  void Allocate(size_t bytes) {
    stack = std::make_unique_for_overwrite<unsigned char[]>(bytes);
    stack_bytes = bytes;
  }
  std::unique_ptr<unsigned char[]> stack;  // none for the host thread's own
  size_t stack_bytes = 0;
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  // AddressSanitizer needs the bounds of the target stack.
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
};

#if defined(__x86_64__)
extern "C" void VarifocalSwitchStacks(void** save, void* load);
#endif

namespace internal {
inline void Raw(FiberContext& from, FiberContext& to) {
#if defined(__x86_64__)
  VarifocalSwitchStacks(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
}
}  // namespace internal

inline void SwitchContext(FiberContext& from, FiberContext& to) {
#if defined(__SANITIZE_ADDRESS__)
  const bool to_fiber = to.stack != nullptr;
  __sanitizer_start_switch_fiber(&from.fake_stack, to_fiber ? to.stack.get() : to.bottom,
                                 to_fiber ? to.stack_bytes : to.size);
  internal::Raw(from, to);
  const void* bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(from.fake_stack, &bottom, &size);
  if (!to_fiber) {
    to.bottom = bottom;
    to.size = size;
  }
#else
  internal::Raw(from, to);
#endif
}

// Call first in a fiber: it was switched to from `host`.
inline void EnterContext(FiberContext& host) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &host.bottom, &host.size);
#else
  static_cast<void>(host);
#endif
}

// The last switch of a fiber that ends.
inline void LeaveContext(FiberContext& from, FiberContext& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, to.bottom, to.size);
#endif
  internal::Raw(from, to);
}

// For a fiber that is never switched to again before its next start: its frames are gone.
inline void AbandonContext(FiberContext& context) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(context.stack.get(), context.stack_bytes);
#else
  static_cast<void>(context);
#endif
}

// Makes `context` start at `entry` when it is switched to; `entry` never returns.
void StartContext(FiberContext& context, void (*entry)());

}  // namespace varifocal::kernels::cuda::emulator
