// Allocation failures of an engine: of its page pools, buffers, threads and requests. Method: this program replaces
// operator new, aligned_alloc and mmap by functions that fail at the N-th call of all threads together. Creating an
// engine and running a request is tried with N = 1, 2, 3, .. until it succeeds without reaching the N-th call. Each time:
// RESOURCE_EXHAUSTED or success with the known answer; then, without faults, an engine that was created answers with the
// same bits, holds no page, and after its end nothing is reserved.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/exceptions.h"
#include "gtest/gtest.h"
#include "server/engine/engine_testing.h"
#include "server/engine/memory_ledger.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

std::atomic<int64_t> allocations_left{-1};  // until the failure; negative: none fails

bool ShouldFail() { return allocations_left.load() >= 0 && allocations_left.fetch_sub(1) == 0; }

}  // namespace
}  // namespace varifocal

// Inlined, the compiler sees malloc's pointer in `delete` and warns.
__attribute__((noinline)) void* operator new(size_t size) {
  void* memory = varifocal::ShouldFail() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return varifocal::ShouldFail() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void* operator new[](size_t size, const std::nothrow_t& nothrow) noexcept { return operator new(size, nothrow); }
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete[](void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

extern "C" void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return varifocal::ShouldFail() ? nullptr : memalign(alignment, size);
}
extern "C" void* mmap(void* place, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  if (varifocal::ShouldFail()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, place, size, protection, flags, fd, offset));
}

namespace varifocal {
namespace {

EngineRequest TheRequest() {
  EngineRequest request;
  request.token_ids = RandomIds("allocation failures", 150);
  GenerateWork work;
  work.max_new_tokens = 6;
  work.ignore_eos = true;
  request.work = work;
  return request;
}

TEST(MemoryFault, EveryAllocationMayFail) {
  const auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  ASSERT_NE(model, nullptr);
  const EngineOptions options = {.name = "m", .kv_cache_bytes = 1 << 20, .prefix_cache = false};
  const std::string ledger = MemoryLedger::Get().ToString();
  std::string expected;
  {
    const auto engine = Engine::Create(model, options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    expected = AnswerBits((*engine)->Run(TheRequest()));
  }
  const int64_t bytes_before = mallinfo2().uordblks;
  int64_t refused_count = 0, failed_count = 0;
  Trials trials("failed allocations", {});
  for (int64_t at = 0;; ++at) {
    SCOPED_TRACE(absl::StrCat("allocation ", at));
    const EngineRequest request = TheRequest();
    absl::StatusOr<std::unique_ptr<Engine>> engine = absl::UnknownError("not created");
    absl::StatusOr<EngineResult> result = absl::UnknownError("not run");
    allocations_left = at;
    const absl::Status created = CatchExceptions("creating the engine", [&] {
      engine = Engine::Create(model, options);
      return engine.status();
    });
    if (created.ok()) {
      const absl::Status run = CatchExceptions("running", [&] {
        result = (*engine)->Run(request);
        return absl::OkStatus();
      });
      if (!run.ok()) result = run;
    }
    const bool is_reached = allocations_left.exchange(-1) < 0;
    if (!created.ok()) {
      ++refused_count;
      EXPECT_TRUE(absl::IsResourceExhausted(created)) << created;
    } else {
      if (result.ok()) {
        EXPECT_EQ(AnswerBits(result), expected);
      } else {
        ++failed_count;
        EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
      }
      EXPECT_EQ(AnswerBits((*engine)->Run(request)), expected) << "the engine continues";
      EXPECT_EQ((*engine)->Status().pages_used, 0);
    }
    engine = absl::UnknownError("ended");
    EXPECT_EQ(MemoryLedger::Get().ToString(), ledger);
    if (!is_reached) break;
    trials.Count();
    if (trials.index() > 100'000) FAIL() << "the scenario does not end";
  }
  EXPECT_GT(refused_count, 0);
  EXPECT_GT(failed_count, 0);
  PrintMeasured(absl::StrCat(refused_count, " engines and ", failed_count, " requests refused, heap grew by ",
                             (static_cast<int64_t>(mallinfo2().uordblks) - bytes_before) / 1024, " KiB"));
}

}  // namespace
}  // namespace varifocal
