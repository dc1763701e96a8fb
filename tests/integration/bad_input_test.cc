// User errors on the command line of the built programs: each row must give the right exit code (1 failed, 2 usage
// error) and one sentence that names the value and, where there is one, the limit. No row may leave a results database
// with rows.
#include <signal.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr char kModel[] = "models/baseline";

struct BadInput {
  std::string name;
  std::string program;
  std::vector<std::string> arguments;  // {D} is a fresh directory that the row's files are written to
  int exit_code;
  std::string message;  // part of standard error
};

std::vector<BadInput> Rows() {
  const std::string model = std::string("--model=b=") + kModel;
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"run", "quick", model, "--db={D}/new.db", "--limit=1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto generate = [](const std::string& file, std::vector<std::string> more = {"--max-new-tokens=4"}) {
    std::vector<std::string> all = {"generate", std::string("--model=") + kModel, "--token-ids-file={D}/" + file};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto with_model = [](const std::string& directory) {
    return std::vector<std::string>{"score", "--model={D}/" + directory, "--token-ids-file={D}/two.json",
                                    "--format=json"};
  };
  return {
      {"misspelt_verb", "varifocal", {"comapre"}, 2, "did you mean \"compare\"?"},
      {"misspelt_flag", "varifocal", {"compare", "--baselin=x"}, 2, "--baselin"},
      {"no_verb", "varifocal", {}, 2, ""},
      {"no_daemon", "varifocal", {"list", "--daemon=127.0.0.1:1", "--connect-timeout=0"}, 1, "`varifocald"},
      {"unknown_suite", "varifocal", {"submit", "nosuch", "--models=b"}, 2, "nosuch"},
      {"suite_key", "varifocal", {"submit", "{D}/key.yaml", "--models=b"}, 2, "key.yaml:6: "},
      {"suite_not_yaml", "varifocal", {"submit", "{D}/broken.yaml", "--models=b"}, 2, "broken.yaml:"},
      {"unknown_task", "varifocal", run({"--tasks=chess"}), 2, "\"chess\""},
      {"unknown_model", "varifocal", run({"--models=c"}), 1, "\"c\""},
      {"no_model_directory",
       "varifocal",
       {"run", "quick", "--model=b={D}/nowhere", "--db={D}/new.db"},
       1,
       "/nowhere/config.json"},
      {"length_too_long", "varifocal", run({"--lengths=100000"}), 1, "65536"},
      {"length_too_short", "varifocal", run({"--lengths=64", "--tasks=rag_facts"}), 1, "64"},
      {"length_zero", "varifocal", run({"--lengths=0"}), 2, "0"},
      {"temperature_zero", "varifocal", run({"--focal-temperatures=0"}), 2, "0"},
      {"temperature_negative", "varifocal", run({"--focal-temperatures=-1"}), 2, "-1"},
      {"temperature_nan", "varifocal", run({"--focal-temperatures=nan"}), 2, "nan"},
      {"temperature_inf", "varifocal", run({"--focal-temperatures=inf"}), 2, "inf"},
      {"temperature_of_variant", "varifocal", run({"--models=b@t=0"}), 2, "b@t=0"},
      {"temperature_on_learned",
       "varifocal",
       {"run", "quick", "--model=b=models/focal-learned", "--models=b@t=0.5", "--db={D}/new.db"},
       1,
       "learned"},
      {"temperature_per_layer_count", "varifocal",
       generate("two.json", {"--max-new-tokens=1", "--focal-temperature=0.5,0.6,0.7"}), 1, "4"},
      {"prompt_too_long", "varifocal", generate("long.json"), 1, "70000"},
      {"token_outside", "varifocal", generate("outside.json"), 1, "99999"},
      {"prompt_empty", "varifocal", generate("empty.json"), 1, "no token"},
      {"ids_not_numbers", "varifocal", generate("words.json"), 1, "\"a\""},
      {"no_new_tokens", "varifocal", generate("two.json", {"--max-new-tokens=0"}), 2, "0"},
      {"unreadable_prompt",
       "varifocal",
       {"generate", std::string("--model=") + kModel, "--prompt-file={D}/none.txt", "--max-new-tokens=1"},
       1,
       "none.txt"},
      {"prompt_is_a_directory",
       "varifocal",
       {"tokenize", std::string("--model=") + kModel, "--file={D}"},
       1,
       "directory"},
      {"config_unknown_key", "varifocal", with_model("config_key"), 1, "attention_sink"},
      {"config_temperature", "varifocal", with_model("config_temperature"), 1, "temperature"},
      {"config_not_json", "varifocal", with_model("config_broken"), 1, "config.json"},
      {"weights_truncated", "varifocal", with_model("weights_short"), 1, "model.safetensors"},
      {"weights_header_length", "varifocal", with_model("weights_header"), 1, "model.safetensors"},
      {"tokenizer_broken",
       "varifocal",
       {"tokenize", "--model={D}/tokenizer_broken", "--file={D}/two.json"},
       1,
       "tokenizer.json"},
      {"database_missing", "varifocal", {"compare", "--db={D}/none.db", "--baseline=a", "--candidate=b"}, 1, "none.db"},
      {"database_empty",
       "varifocal",
       {"compare", "--db={D}/empty.db", "--baseline=a", "--candidate=b"},
       1,
       "empty (0 bytes)"},
      {"database_of_text",
       "varifocal",
       {"report", "--db={D}/text.db", "--out={D}/r.html"},
       1,
       "not an SQLite database"},
      {"database_is_a_directory",
       "varifocal",
       {"compare", "--db={D}", "--baseline=a", "--candidate=b"},
       1,
       "is a directory"},
      {"home_of_a_suite", "varifocal", {"submit", "~/mine.yaml", "--models=b"}, 1, "$HOME"},
      {"home_in_a_suite",
       "varifocal",
       {"run", "{D}/home.yaml", std::string("--model=b=") + kModel, "--db={D}/new.db"},
       1,
       "$HOME"},
      {"home_of_a_model", "varifocal", {"run", "quick", "--model=b=~/nowhere", "--db={D}/new.db"}, 1, "$HOME"},
      {"home_of_a_database", "varifocal", {"compare", "--db=~/r.db", "--baseline=a", "--candidate=b"}, 1, "$HOME"},
      {"dashboard_elsewhere", "varifocal", {"dashboard", "--db={D}/r.db", "--listen=0.0.0.0:50152"}, 2, "127.0.0.1"},
      {"dashboard_twice",
       "varifocal",
       {"dashboard", "--db={D}/r.db", "--listen=127.0.0.1:0", "--port=0"},
       2,
       "not both"},
      {"answers_to_a_daemon",
       "varifocal",
       {"import", "quick", "--predictions=a", "--name=b", std::string("--tokenizer=") + kModel},
       2,
       "--db"},
      {"metric_unknown", "varifocal", {"metric", "--jsonl={D}/metric.jsonl"}, 1, "bleu"},
      {"daemon_no_database", "varifocald", {model}, 2, "--db is required"},
      {"daemon_bad_address", "varifocald", {"--db={D}/new.db", model, "--listen=256.0.0.1:99999"}, 2, "HOST:PORT"},
      {"daemon_open_address", "varifocald", {"--db={D}/new.db", model, "--listen=0.0.0.0:0"}, 2, "--tls-cert"},
      {"daemon_database_path", "varifocald", {"--db={D}/nowhere/d.db", model, "--listen=127.0.0.1:0"}, 1, "/nowhere"},
      {"daemon_database_is_a_directory",
       "varifocald",
       {"--db={D}", model, "--listen=127.0.0.1:0"},
       1,
       "is a directory"},
      {"daemon_home", "varifocald", {"--db={D}/new.db", "--model=b=~/models/b", "--listen=127.0.0.1:0"}, 1, "$HOME"},
      {"daemon_flag",
       "varifocald",
       {"--db={D}/new.db", model, "--prefil-chunk-tokens=4"},
       2,
       "did you mean \"--prefill-chunk-tokens\"?"},
      {"daemon_device",
       "varifocald",
       {"--db={D}/new.db", model, "--listen=127.0.0.1:0", "--device=cuda:7"},
       1,
       "cuda:7"},
      {"daemon_isa", "varifocald", {"--db={D}/new.db", model, "--listen=127.0.0.1:0", "--cpu-isa=sse9"}, 1, "sse9"},
      {"daemon_model_flag",
       "varifocald",
       {"--db={D}/new.db", "--model=models/baseline", "--listen=127.0.0.1:0"},
       2,
       "NAME=DIR"},
  };
}

// The files that the rows name, in one directory.
void WriteInputs(const TemporaryDirectory& d) {
  std::string long_ids = "[5";
  for (int i = 1; i < 70000; ++i) long_ids += ",5";
  WriteFile(d.File("long.json"), long_ids + "]");
  WriteFile(d.File("two.json"), "[5,6]");
  WriteFile(d.File("outside.json"), "[5,99999]");
  WriteFile(d.File("empty.json"), "[]");
  WriteFile(d.File("words.json"), "[1,\"a\"]");
  WriteFile(d.File("key.yaml"), "name: x\nlengths: [1024]\nsamples: 4\ntasks:\n  - kind: recall_kv\n    sampels: 3\n");
  WriteFile(d.File("home.yaml"),
            "name: x\nlengths: [256]\ntasks:\n  - kind: jsonl\n    parameters: {path: ~/rows.jsonl, prompt: \"{q}\", "
            "gold: a}\n");
  WriteFile(d.File("broken.yaml"), "name: x\ntasks: [\n");
  WriteFile(d.File("empty.db"), "");
  WriteFile(d.File("text.db"), "this is text, and long enough to be looked at as a database file, which it is not\n");
  WriteFile(d.File("metric.jsonl"), "{\"metric\":\"bleu\",\"prediction\":\"a\",\"gold\":[\"a\"]}\n");

  const std::string config = ReadFile(std::string(kModel) + "/config.json");
  const std::string weights = ReadFile(std::string(kModel) + "/model.safetensors");
  const auto model = [&](const std::string& name, const std::string& its_config, const std::string& its_weights) {
    const std::string directory = d.File(name);
    ASSERT_EQ(RunProcess("../../../../../../../../../../bin/mkdir", {directory}).exit_code, 0);
    WriteFile(directory + "/config.json", its_config);
    WriteFile(directory + "/model.safetensors", its_weights);
  };
  const auto add_key = [&](const std::string& key) { return "{" + key + "," + config.substr(config.find('{') + 1); };
  model("config_key", add_key("\"attention_sink\": true"), weights);
  model("config_temperature", add_key("\"focal_attention\": {\"mode\": \"constant\", \"temperature\": -0.4}"), weights);
  model("config_broken", config.substr(0, config.size() / 2), weights);
  model("weights_short", config, weights.substr(0, weights.size() - 4));
  std::string header = weights;
  header[7] = '\x7f';  // the header would be 2^63 bytes long
  model("weights_header", config, header);
  model("tokenizer_broken", config, weights);
  WriteFile(d.File("tokenizer_broken/tokenizer.json"), "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\"}}");
}

class BadInputTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    inputs_ = new TemporaryDirectory;
    WriteInputs(*inputs_);
  }
  static void TearDownTestSuite() { delete inputs_; }
  static TemporaryDirectory* inputs_;
};

TemporaryDirectory* BadInputTest::inputs_ = nullptr;

std::string Fill(std::string text, const std::string& directory) {
  for (size_t at; (at = text.find("{D}")) != std::string::npos;) text.replace(at, 3, directory);
  return text;
}

TEST_F(BadInputTest, EndsWithOneSentenceAndTheRightCode) {
  for (const BadInput& row : Rows()) {
    SCOPED_TRACE(row.name);
    std::vector<std::string> arguments;
    for (const std::string& argument : row.arguments) arguments.push_back(Fill(argument, inputs_->path()));
    const ProcessResult result = RunProcess(row.program, arguments, {.seconds_max = 60});
    EXPECT_EQ(result.exit_code, row.exit_code) << result.err;
    EXPECT_THAT(result.err + (row.message.empty() ? result.out : ""), HasSubstr(row.message));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("check failed")));
    if (row.program == "varifocal" && row.arguments.size() > 1 && row.arguments[0] == "run") {
      // Rejected before any request: the database, if there is one, has no job.
      const ProcessResult compare =
          RunProcess("varifocal", {"compare", "--db=" + inputs_->File("new.db"), "--baseline=b", "--candidate=b"},
                     {.seconds_max = 60});
      EXPECT_EQ(compare.exit_code == 0, false);
    }
  }
}

TEST_F(BadInputTest, ASecondWriterAndASecondListenerAreRejected) {
  TemporaryDirectory directory;
  DaemonProcess daemon({"--db=" + directory.File("a.db"), std::string("--model=b=") + kModel});
  const std::string address = daemon.Address();
  ASSERT_NE(address, "") << daemon.Errors();

  const ProcessResult writer = RunProcess(
      "varifocald", {"--db=" + directory.File("a.db"), std::string("--model=b=") + kModel, "--listen=127.0.0.1:0"});
  EXPECT_EQ(writer.exit_code, 1);
  EXPECT_THAT(writer.err, HasSubstr(std::to_string(daemon.pid()))) << "the holder's pid";

  const ProcessResult listener = RunProcess(
      "varifocald", {"--db=" + directory.File("b.db"), std::string("--model=b=") + kModel, "--listen=" + address});
  EXPECT_EQ(listener.exit_code, 1);
  EXPECT_THAT(listener.err, HasSubstr(address));

  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(30), 0);
}

}  // namespace
}  // namespace varifocal
