// Admission: bounds at the limit and beyond, the gate's round-robin order, and pools that are full or stalled. Method:
// the classes in isolation, with small limits and a manual clock.
#include "server/rpc/admission.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "gmock/gmock.h"
#include "server/rpc/engine_gate.h"
#include "server/rpc/rpc_pool.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;

TEST(AdmissionTest, PeersAreAddressesWithoutTheirPorts) {
  EXPECT_EQ(PeerAddress("ipv4:127.0.0.1:40312"), "ipv4:127.0.0.1");
  EXPECT_EQ(PeerAddress("ipv6:%5B::1%5D:40312"), "ipv6:%5B::1%5D");
  EXPECT_EQ(PeerAddress("unix:/run/v.sock"), "unix:/run/v.sock");
}

TEST(AdmissionTest, CallsAndBytesOfAPeerAndOfAllAreBounded) {
  Admission admission({.calls = 3, .bytes = 100, .calls_of_peer = 2, .bytes_of_peer = 60});
  const auto refusal = [&](const std::string& peer, int64_t bytes) {
    const auto ticket = admission.Admit(peer, bytes);
    EXPECT_EQ(ticket.ok() ? "" : ReasonOf(ticket.status()).name, ticket.ok() ? "" : "TOO_MANY_CALLS");
    return std::string(ticket.status().message());
  };
  auto first = admission.Admit("a", 60);  // at its limit
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(refusal("a", 1), Message("61", "60"));
  auto second = admission.Admit("a", 0);
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(refusal("a", 0), Message("3", "2"));
  EXPECT_THAT(refusal("b", 41), Message("101", "100"));
  auto third = admission.Admit("b", 40);
  ASSERT_TRUE(third.ok());
  EXPECT_THAT(refusal("c", 0), Message("4", "3"));
  first->reset();
  EXPECT_EQ(refusal("a", 60), "") << "a call that ended releases its share";
}

TEST(AdmissionTest, MoreBytesOfACallAreNoFurtherCall) {
  Admission admission({.calls = 1, .bytes = 100, .calls_of_peer = 1, .bytes_of_peer = 60});
  auto call = admission.Admit("a", 10);
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(HasReason(admission.AdmitMore("a", 51).status(), ErrorReason::kTooManyCalls));
  auto more = admission.AdmitMore("a", 50);  // at its limit
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(admission.Active().calls, 1);
  EXPECT_EQ(admission.Active().bytes, 60);
  call->reset();
  EXPECT_EQ(admission.Active().bytes, 50);
  EXPECT_FALSE(admission.Admit("a", 11).ok()) << "the bytes of a peer without calls are kept";
  more->reset();
  EXPECT_TRUE(admission.Admit("a", 60).ok());
}

// Runs posted work when the test calls it.
class HeldPool {
 public:
  HeldPool() {
    EXPECT_TRUE(pool_
                    .Post([this] {
                      MutexLock lock(mutex_);
                      is_held_ = true;
                      changed_.NotifyAll();
                      changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return released_; });
                    })
                    .ok());
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return is_held_; });
  }
  ~HeldPool() { Release(); }
  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
  }
  RpcPool& pool() { return pool_; }
  FakeClock& clock() { return clock_; }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_held_ VF_GUARDED_BY(mutex_) = false;
  bool released_ VF_GUARDED_BY(mutex_) = false;
  FakeClock clock_;
  RpcPool pool_{"test", 1, 2, clock_};
};

TEST(RpcPoolTest, AFullPoolRefusesAndAStalledOneShowsIt) {
  HeldPool held;
  EXPECT_EQ(held.pool().WaitMicros(), 0) << "blocked, but no call waits";
  ASSERT_TRUE(held.pool().Post([] {}).ok());
  held.clock().Advance(7);
  ASSERT_TRUE(held.pool().Post([] {}).ok());
  held.clock().Advance(5);
  EXPECT_EQ(held.pool().WaitMicros(), 12) << "the oldest counts";
  EXPECT_THAT(held.pool().Post([] {}), RefusedFor("LANE_FULL", Message("2")));
}

TEST(EngineGateTest, PeersTakeTurnsWithinTheLimit) {
  struct {
    Mutex mutex;
    std::vector<std::string> names VF_GUARDED_BY(mutex);
  } started;
  int64_t limit = 2;
  {
    RpcPool pool("start", 1, 100);
    EngineGate gate(&pool, [&limit](const std::string& model) { return model == "m" ? limit : 0; });
    const auto enter = [&](const std::string& peer, const std::string& name) {
      return gate.Enter("m", peer, [&, name] {
        MutexLock lock(started.mutex);
        started.names.push_back(name);
      });
    };
    for (int i = 0; i < 4; ++i) enter("a", absl::StrCat("a", i));  // a0 and a1 go in
    const int64_t leaving = enter("b", "b0");
    enter("b", "b1");
    enter("c", "c0");
    EXPECT_EQ(gate.QueueOf("m").waiting_count, 5);
    EXPECT_TRUE(gate.Withdraw("m", leaving));
    EXPECT_FALSE(gate.Withdraw("m", leaving));
    EXPECT_FALSE(gate.Withdraw("m", 0)) << "it is in already";
    for (int i = 0; i < 3; ++i) gate.Leave("m");  // b1, c0, a2
    EXPECT_EQ(gate.QueueOf("m").waiting_count, 1);
    limit = 1;  // a job has begun
    gate.Leave("m");
    EXPECT_EQ(gate.QueueOf("m").waiting_count, 1) << "one is inside, and no more are let in";
    gate.Leave("m");
    EXPECT_EQ(gate.QueueOf("m").waiting_count, 0);
    gate.Leave("m");
  }
  MutexLock lock(started.mutex);
  EXPECT_THAT(started.names, ElementsAre("a0", "a1", "b1", "c0", "a2", "a3"));
}

}  // namespace
}  // namespace varifocal
