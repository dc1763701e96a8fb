#include "kernels/cuda/emulator/context_switch.h"

#if defined(__x86_64__)
// System V: a callee keeps rbx, rbp, r12..r15 and the stack pointer; everything else is the caller's to save.
asm(R"(
.text
.globl VarifocalSwitchStacks
.type VarifocalSwitchStacks, @function
VarifocalSwitchStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size VarifocalSwitchStacks, .-VarifocalSwitchStacks
.section .note.GNU-stack,"",@progbits
.text
)");
#endif

namespace varifocal::kernels::cuda::emulator {

void StartContext(FiberContext& context, void (*entry)()) {
#if defined(__x86_64__)
  auto top = reinterpret_cast<uintptr_t>(context.stack.get() + context.stack_bytes) & ~uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top);
  // `ret` leaves the stack pointer 8 below a multiple of 16, as a call would.
  words[-2] = reinterpret_cast<void*>(entry);
  for (int i = 3; i <= 8; ++i) words[-i] = nullptr;
  context.stack_pointer = words - 8;
#else
  getcontext(&context.context);
  context.context.uc_stack.ss_sp = context.stack.get();
  context.context.uc_stack.ss_size = context.stack_bytes;
  context.context.uc_link = nullptr;
  makecontext(&context.context, entry, 0);
#endif
}

}  // namespace varifocal::kernels::cuda::emulator
