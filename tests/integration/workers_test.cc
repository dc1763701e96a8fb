// A coordinator over real daemons with the shipped checkpoints: the same suite on 1, 2 and 4 workers has the rows of one process,
// while workers are killed at random instants and started again. Attention that is inspected on workers has the bits of one process.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/random.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

constexpr char kWorkersSuite[] = "tests/integration/tiny.yaml";
constexpr char kInspectedRows[] = "--inspected-rows=question";
constexpr int kAnswers = 2 * 5 * 2 * 8;  // variants, tasks, lengths, samples

std::vector<std::string> Models() {
  return {"--model=baseline=models/baseline", "--model=focal=models/focal-constant"};
}

// A worker at a Unix socket, which a restart takes again.
std::unique_ptr<BackgroundProcess> StartWorker(const TemporaryDirectory& directory, int index) {
  std::vector<std::string> arguments = Models();
  const std::string name = "w" + std::to_string(index);
  arguments.insert(arguments.end(),
                   {"--db=" + directory.File(name + ".db"), "--threads=1", "--listen=unix:" + directory.File(name)});
  return std::make_unique<BackgroundProcess>("varifocald", arguments);
}

class CoordinatorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Inspection changes no answer, so this run is compared with those that inspect and those that do not.
    std::vector<std::string> arguments = {"run", kWorkersSuite, "--db=" + Directory().File("alone.db"), "--inspect",
                                          kInspectedRows};
    for (const std::string& model : Models()) arguments.push_back(model);
    const ProcessResult alone = RunProcess("varifocal", arguments, {.seconds_max = 280});
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
  }
  static TemporaryDirectory& Directory() {
    static TemporaryDirectory directory;
    return directory;
  }

  // Doubles as text that names every bit.
  static std::string Rows(const std::string& database, const std::string& sql) {
    const ProcessResult rows = RunProcess("varifocal", {"query", "--db=" + database, "--format=csv", sql});
    EXPECT_EQ(rows.exit_code, 0) << rows.err;
    return rows.out;
  }
  static void ExpectSameAttention(const std::string& database) {
    const std::string heads =
        "SELECT variants.name, samples.task, samples.context_length, sample_index, layer, head, quote(scale), quote(entropy), "
        "quote(largest_weight), quote(first_mass), quote(evidence_mass), quote(distractor_mass), quote(question_mass), "
        "strip FROM attention_heads JOIN generations USING (generation_id) JOIN samples USING (sample_id) "
        "JOIN cells USING (cell_id) JOIN variants USING (variant_id) ORDER BY 1, 2, 3, 4, 5, 6";
    const std::string samples =
        "SELECT variant, task, context_length, sample_index, question_id, cluster, prompt_token_count, gold, answer, "
        "metric, quote(value), error_code, is_primary, quote(depth), finish_reason, new_token_count, trained_temperature, "
        "run_temperature, is_extrapolated, is_truncated FROM v_samples ORDER BY 1, 2, 3, 4, 10";
    const std::string alone = Directory().File("alone.db"), expected = Rows(alone, heads);
    EXPECT_GT(std::count(expected.begin(), expected.end(), '\n'), kAnswers * 16 / 2) << "4 layers of 4 heads";
    EXPECT_TRUE(Rows(database, heads) == expected) << "attention differs";
    EXPECT_EQ(Rows(database, samples), Rows(alone, samples));
  }

  void Run(int worker_count, int kill_count, bool inspects) {
    TemporaryDirectory directory;
    std::vector<std::unique_ptr<BackgroundProcess>> workers;
    std::string addresses;
    for (int i = 0; i < worker_count; ++i) {
      workers.push_back(StartWorker(directory, i));
      addresses += (i > 0 ? "," : "") + ("unix:" + directory.File("w" + std::to_string(i)));
    }
    std::vector<std::string> arguments = Models();
    const std::string database = directory.File("all.db");
    arguments.insert(arguments.end(), {"--db=" + database, "--workers=" + addresses});
    DaemonProcess coordinator(arguments);
    const std::string address = coordinator.Address();
    ASSERT_NE(address, "") << coordinator.Errors();
    std::vector<std::string> submitted = {"submit", kWorkersSuite, "--daemon=" + address, "--models=baseline,focal",
                                          "--wait"};
    if (inspects) submitted.insert(submitted.end(), {"--inspect", kInspectedRows});
    BackgroundProcess submit("varifocal", submitted);
    Random random("kills of workers");
    int killed = 0;
    for (; killed < kill_count && submit.IsRunning(); ++killed) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random.Below(1000)));
      const int victim = random.Below(worker_count);
      workers[victim]->Signal(SIGKILL);
      workers[victim]->Wait(10);
      workers[victim] = StartWorker(directory, victim);
    }
    ASSERT_EQ(submit.Wait(250), 0) << submit.Errors() << coordinator.Errors();
    RecordProperty("killed", killed);
    const ProcessResult diff = RunProcess("varifocal", {"diff", Directory().File("alone.db"), database});
    EXPECT_EQ(diff.exit_code, 0) << diff.out;
    if (inspects) ExpectSameAttention(database);
    // Every row names the worker that computed it.
    const std::string executions =
        "SELECT device, count(*) FROM executions JOIN generations USING (execution_id) GROUP BY device ORDER BY device";
    const ProcessResult rows = RunProcess("varifocal", {"query", "--db=" + database, "--format=csv", executions});
    int named = 0;
    for (int i = 0; i < worker_count; ++i) {
      const size_t at = rows.out.find("worker unix:" + directory.File("w" + std::to_string(i)) + ",");
      EXPECT_TRUE(at != std::string::npos || kill_count > 0) << "a worker has no answer: " << rows.out << rows.err;
      if (at != std::string::npos) named += std::stoi(rows.out.substr(rows.out.find(',', at) + 1));
    }
    EXPECT_EQ(named, kAnswers) << rows.out;
  }
};

TEST_F(CoordinatorTest, OneWorker) { Run(1, 0, false); }
TEST_F(CoordinatorTest, FourWorkers) { Run(4, 0, false); }
TEST_F(CoordinatorTest, TwoWorkersInspect) { Run(2, 0, true); }
TEST_F(CoordinatorTest, TwoWorkersAndTwentyKills) { Run(2, 20, true); }

}  // namespace
}  // namespace varifocal
